"""Numeric features of texts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import Pipeline, make_pipeline

__all__ = ["latent_semantic_analysis"]

N_GRAMS = 5000  # the most frequent ones


def latent_semantic_analysis(texts: NDArray[np.object_], most_features: int) -> Pipeline:
    """Fit principal directions of the tf-idf weights of n-grams of characters.

    N-grams relate words with the same stem, and need no list of words of a language.
    """
    vectorizer = TfidfVectorizer(
        analyzer="char_wb", ngram_range=(3, 4), max_features=N_GRAMS, sublinear_tf=True
    )
    weights = vectorizer.fit_transform(texts)
    reduction = TruncatedSVD(min(most_features, *weights.shape), random_state=0)
    with np.errstate(divide="ignore", invalid="ignore"):  # of the explained share of no variance
        reduction.fit(weights)
    return make_pipeline(vectorizer, reduction)
