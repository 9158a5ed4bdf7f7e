"""The English of code and documentation: replaced phrases, sentence length, measured numbers."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
MOST_WORDS = 30
# A phrase that was replaced, as a regular expression, and the words to use instead.
REPLACED = {
    r"to be had": "available",
    r"is told\b": "a subject and a verb, such as 'the command prints'",
    r"fit has told": "fit was called before",
    r"who hands? out": "the scheduler",
    r"none of its business": "not checked here",
    r"deaf to": "ignores SIGINT",
    r"twin that": "`ReLSRClassifierCV` selects `beta` by cross-validation",
    r"[Ww]eights are copies": "sample weights are equivalent to repeating rows",
    r"\bk copies\b": "weight k is equivalent to repeating the sample k times",
    r"(stands|counts) (exactly )?(for|as) \S+ copies": "is equivalent to repeated samples",
    r"\b[Ll]earnt\b": "learned",
    r"one (column|row|line) a ": "one ... per ...",
    r"coefficients a class": "coefficients per class",
    r"coefficients of so many": "the number of ...",
    r"is kept up\b|are kept up\b": "is updated",
    r"has to be told": "needs the argument",
    r"handed back": "returned, or restored",
    r"most wants? to be": "with the largest correlations",
    r"\bmidst\b": "the median or the mean",
    r"changes no \w": "does not change",
    r"the values tell\b": "the result is NaN or infinite",
    r"\ba (column|row) each\b": "one column per class",
    r"constant to rounding": "constant up to rounding",
    r"number of copies that": "sample weights are equivalent to repeating rows",
    r"how many copies|[Cc]opies in each": "the sum of the sample weights",
    r"rows that are (elsewhere|not at hand)": "the moments of the rows",
    r"beyond what can be": "too large or too small to be",
    r"left to who\b": "not checked here",
    r"[Ss]ay what is wrong": "raise ValueError if",
    r"\bis to blame\b": "the error names the chunk",
    r"nothing to tell apart": "fewer than two classes",
    r"classes of so many": "the sums of the sample weights",
    r"[Oo]f the chance": "seed of",
    r"Chance in the": "seed of",
    r"\"Show it\.\"": "Show the version and exit.",
    r"[Bb]egins? anew|starts it anew|\bafresh\b": "start again",
    r"is not looked at": "is ignored",
    r"[Hh]ow to hold samples out": "cross-validation splitter",
    r"as joblib counts": "as for joblib",
    r"to choose from": "candidates for",
    r"[Oo]f equally good": "ties go to",
    r"in the place of X": "in place of X",
    r"told apart": "distinguished, or not significantly different",
    r"beyond (the )?noise": "significantly",
    r"within noise": "not significantly different",
    r"has not seen (it|one unit|the fold)": "held-out",
    r"the model that people wish": "a measured comparison",
    r"what people wish": "a measured comparison",
    r"never a part": "written atomically",
    r"is no (intact|svmlight|ARFF|CSR|time\b|path\b|test\b|singularity)": "is not a ...",
    r"make no CSR": "are not a CSR matrix",
    r"have no (say|business)": "do not affect",
    r"\btheir say\b": "their influence",
    r"loses? (its|their|the) digits": "loses precision",
    r"whatever it is\b": "of any type",
    r"is let go": "is dropped",
    r"can be had again": "can be computed again",
    r"nor is there": "does not exist either",
    r"\blest\b": "so that ... not",
    r"the (trace|residuals) tells?\b": "the values are checked below",
    r"no column is left to learn from": "no column can be used as a feature",
    r"as a name or a number of the row": "like an identifier",
    r"is never closed": "is not closed",
    r"[Mm]ost frequent class has accuracy .* answering": "always predicting",
    r"always answering": "always predicting",
    r"which classifier to take": "which classifier to use",
    r"[Hh]ow far (it|a run) (came|is)": "progress",
    r"took longer than it may": "exceeded its time limit",
    r"what (it|the directory) holds is continued": "fits stored there are not repeated",
    r"what was found and done": "notes on the table",
    r"everything that (its|the) page .*tells": "contents of the report",
    r"what stands in the way": "the reason why",
    r"what it is given": "its arguments",
}
# Folders that a build of the documentation writes.
BUILT = {
    ROOT / "docs" / name for name in ("_build", "benchmarks", "gallery", "project", "reproduction")
}
SUFFIXES = {".py", ".pyi", ".md", ".html", ".toml"}
FILES = [
    README,
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *(
        path
        for folder in ("src", "docs", "examples", "reproduction/src", "reproduction/docs")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in SUFFIXES and BUILT.isdisjoint(path.parents)
    ),
    ROOT / "reproduction/README.md",
]


def replaced_phrases(text):
    """Phrases that were replaced, with the better words, ignoring line breaks."""
    line = re.sub(r"\s+", " ", re.sub(r"\n\s*#", "\n", text))
    return [
        f"{found[0]!r}: write {better!r}"
        for phrase, better in REPLACED.items()
        if (found := re.search(phrase, line))
    ]


def sentences(markdown):
    """Sentences of a page without its code; a cell of a table is a sentence of its own."""
    text = re.sub(r"^```.*?^```|<!--.*?-->", "\n\n", markdown, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(
        r"^\s*([-#]+|\|.*\|$)", lambda m: "\n\n" + m[0] + "\n\n", text, flags=re.MULTILINE
    )
    paragraphs = re.split(r"\n\s*\n|\|", text)
    return [
        sentence
        for paragraph in paragraphs
        for sentence in re.split(r"(?<=[.!?])\s+", " ".join(paragraph.split()))
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_replaced_phrases_do_not_come_back(path):
    assert replaced_phrases(path.read_text(encoding="utf-8")) == []


def test_a_replaced_phrase_is_found_across_lines_and_comments():
    assert replaced_phrases("# the weights of the\n    # chance: how\n# to hold samples out") == [
        "'of the chance': write 'seed of'",
        "'how to hold samples out': write 'cross-validation splitter'",
    ]


def test_sentences_of_the_readme_are_short():
    page = sentences(README.read_text(encoding="utf-8"))
    assert len(page) > 100
    assert [sentence for sentence in page if len(sentence.split()) > MOST_WORDS] == []


def test_a_long_sentence_is_found():
    long = "word " * MOST_WORDS + "end."
    found = sentences(f"Short. See [the page](page.md).\n\n```bash\n{long}\n```\n\n- {long}")
    assert [len(sentence.split()) for sentence in found if "word" in sentence] == [MOST_WORDS + 1]


def stored(name, *key):
    """The cells of the only row of a stored table that begins with these cells."""
    lines = (ROOT / "benchmarks/results" / name).read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]
    (row,) = [row for row in rows if row[: len(key)] == list(key)]
    return row[len(key) :]


def test_the_numbers_of_the_readme_are_those_of_the_stored_tables():
    page = README.read_text(encoding="utf-8")
    accuracy = {
        model: stored("default_penalties.md", model)[-1]
        for model in ("ReLSR", "RidgeClassifier", "LogisticRegression")
    }
    assert (
        f"mean test accuracy {accuracy['ReLSR']} % instead of {accuracy['RidgeClassifier']} %"
    ) in page
    assert f"`LogisticRegression` reaches {accuracy['LogisticRegression']} %" in page
    odm, svc = (
        stored("margin.md", "a9a", "10,000 x 123", "defaults", model) for model in ("ODM", "SVC")
    )
    assert (
        f"fit in {odm[0]} s instead of {svc[0]} s on 10,000 rows of a9a, "
        f"with accuracy {odm[-1]} % instead of {svc[-1]} %"
    ) in page
    lrrr, lda = (
        stored("lowrank.md", "350 x 5,000", model)
        for model in ("LRRRClassifier", "LDA, shrinkage, eigen")
    )
    assert f"fit in {lrrr[0]} s instead of {lda[0]} s on 350 x 5,000 data" in page
    assert float(lda[-1]) < 1e-10  # the angle between the subspaces
