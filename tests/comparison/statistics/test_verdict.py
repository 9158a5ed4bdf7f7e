"""The decision of a comparison: true of the scores, and careful where they do not decide."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from comparison_evidence import evidence_of, predictions

from discreg.comparison.candidates.contender import Contender
from discreg.comparison.running.experiment import Key
from discreg.comparison.statistics import resampling
from discreg.comparison.statistics.evidence import WHOLE_REPEAT
from discreg.comparison.statistics.verdict import decide


@pytest.fixture(autouse=True)
def few_samples(monkeypatch):
    monkeypatch.setattr(resampling, "N_SAMPLES", 100)


def simulated(accuracies, *, n_rows=1000, share=0.4, seed=0, **settings):
    """Evidence of models that are right with these probabilities, in order of simplicity."""
    rng = np.random.default_rng(seed)
    y = (np.arange(n_rows) < share * n_rows).astype(int)
    named = {name: predictions(y, accuracy, rng) for name, accuracy in accuracies.items()}
    return evidence_of(y, named, seed=seed, **settings)


def near_copies(n_rows=2000, *, names=("simple", "best"), **settings):
    """Two models that differ on one row in a thousand; the second is better."""
    rng = np.random.default_rng(0)
    y = np.arange(n_rows) % 2
    best = predictions(y, 0.9, rng, same=1)
    simple = best.copy()
    places = np.flatnonzero((best == y).all(axis=0))[:: n_rows // 4]
    simple[:, places] = 1 - y[places]
    return evidence_of(y, dict(zip(names, (simple, best), strict=True)), **settings)


def test_a_model_far_ahead_is_the_clear_winner():
    verdict = decide(simulated({"a": 0.7, "b": 0.9, "c": 0.75}))
    assert (verdict.kind, verdict.recommended, verdict.best) == ("clear winner", "b", "b")
    assert verdict.equivalent == verdict.undecided == ()
    assert "b is the clear winner" in verdict.sentence
    assert "probability above 0.99" in verdict.sentence
    assert verdict.baseline == pytest.approx(0.6, abs=1e-3)


def test_the_simplest_of_equivalent_models_is_recommended_and_the_best_mean_named():
    verdict = decide(near_copies())
    assert (verdict.kind, verdict.recommended, verdict.best) == ("equally good", "simple", "best")
    assert verdict.equivalent == ("simple",)
    assert "simple is recommended: it is the simplest of 2 equally good models" in verdict.sentence
    assert "best has the best mean" in verdict.sentence


def test_the_best_is_recommended_if_it_is_the_simplest():
    verdict = decide(
        near_copies(
            names=("worse", "best"),
            contenders={
                "best": Contender(name="best", origin="own", place=0),
                "worse": Contender(name="worse", origin="own", place=1),
            },
        )
    )
    assert (verdict.recommended, verdict.equivalent) == ("best", ("worse",))
    assert "it has the best mean, and it is the simplest of 2 equally good" in verdict.sentence


def test_auto_is_named_first_only_among_equivalent_models():
    evidence = near_copies(names=("simple", "best"))
    y, labels = evidence.y, evidence.held_out["simple"][0].labels
    best = evidence.held_out["best"][0].labels
    named = {"simple": labels, "other": labels, "best": best, "Auto": labels}
    verdict = decide(evidence_of(y, {name: np.array([each] * 2) for name, each in named.items()}))
    assert verdict.recommended == "simple"
    assert verdict.equivalent == ("Auto", "simple", "other")


def test_undecided_models_are_named_and_never_recommended_over_the_best_mean():
    verdict = decide(simulated({"simple": 0.8, "better": 0.82}, n_rows=300))
    assert (verdict.kind, verdict.recommended) == ("equally good", verdict.best)
    assert len(verdict.undecided) == 1
    assert verdict.sentence.startswith("No clear winner")
    assert "and 0.975 is needed to decide" in verdict.sentence


def test_quicker_model_is_named_only_if_it_is_equivalent():
    evidence = near_copies(seconds={"simple": 10.0, "best": 1.0})
    verdict = decide(evidence)
    assert (verdict.recommended, verdict.quicker) == ("simple", "best")
    assert "best is equally good and quicker to fit" in verdict.sentence
    slow = near_copies(seconds={"simple": 1.0, "best": 10.0})
    assert decide(slow).quicker is None
    undecided = simulated({"a": 0.8, "b": 0.82}, n_rows=300, seconds={"a": 0.1, "b": 9.0})
    assert decide(undecided).quicker is None


@pytest.mark.parametrize("metric", ["accuracy", "balanced_accuracy", "g_mean"])
def test_noise_does_not_beat_the_majority_class(metric):
    """Guesses have a G-mean above that of the majority class, 0, but no information."""
    kinds = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        y = (np.arange(300) < 105).astype(int)
        named = {f"m{place}": (rng.random((2, 300)) < 0.4).astype(int) for place in range(8)}
        verdict = decide(evidence_of(y, named, metric=metric, seed=seed))
        assert verdict.recommended is None
        kinds.append(verdict.kind)
    assert kinds.count("nothing beats the majority class") >= 8


def test_the_sentence_on_the_majority_class_has_the_corrected_score():
    evidence = simulated({f"m{place}": 0.6 for place in range(6)}, n_rows=300)
    verdict = decide(evidence)
    assert verdict.kind == "nothing beats the majority class"
    assert verdict.estimate.corrected < verdict.estimate.mean
    assert f"{verdict.estimate.corrected:.3f} after correction" in verdict.sentence
    assert "majority class has 0.600" in verdict.sentence


def test_an_uncertain_lead_over_the_majority_class_is_not_enough_evidence():
    verdict = decide(simulated({"one": 0.65}, n_rows=160, seed=11))
    assert 0.9 <= verdict.p_beats_baseline < 0.95
    assert (verdict.kind, verdict.recommended) == ("not enough evidence", None)
    assert "0.95 is needed" in verdict.sentence


def test_a_lead_over_the_majority_class_that_is_practically_zero_is_called_small():
    rng = np.random.default_rng(0)
    y = (np.arange(20_000) < 1000).astype(int)
    labels = np.where((y == 1) & (rng.random(20_000) < 0.1), 1, 0)
    verdict = decide(evidence_of(y, {"one": np.array([labels] * 2)}))
    assert verdict.recommended == "one"
    assert "lead over the majority class is small" in verdict.sentence


def test_too_few_common_folds_are_not_enough_evidence():
    evidence = simulated({"a": 0.9, "b": 0.7})
    first = evidence.results.query("repeat == 0 and fold < 2")
    verdict = decide(replace(evidence, results=first))
    assert (verdict.kind, verdict.recommended) == ("not enough evidence", None)
    assert "2 of 10 folds in common" in verdict.sentence


def test_nothing_finished_is_not_enough_evidence():
    evidence = simulated({"a": 0.9})
    nothing = replace(evidence, results=evidence.results[:0], held_out={})
    verdict = decide(nothing)
    assert (verdict.kind, verdict.best) == ("not enough evidence", None)
    assert "no model was judged (a: finished 0 of 10 folds)" in verdict.sentence


@pytest.mark.parametrize(
    ("metric", "kind"),
    [
        ("balanced_accuracy", "not enough evidence"),
        ("accuracy", "nothing beats the majority class"),
    ],
)
def test_a_class_of_three_rows_decides_nothing_by_its_recall(metric, kind):
    y = np.zeros(300, dtype=int)
    y[::100] = 1
    labels = np.array([y, y])
    labels[:, :20] = 1
    evidence = evidence_of(y, {"one": labels}, metric=metric, n_folds=3, n_repeats=2)
    verdict = decide(evidence)
    assert (verdict.kind, verdict.recommended) == (kind, None)


def test_one_test_set_is_judged_by_its_rows():
    rng = np.random.default_rng(0)
    y = np.arange(1000) % 2
    named = {
        name: predictions(y, each, rng, n_repeats=1) for name, each in (("a", 0.7), ("b", 0.9))
    }
    whole = evidence_of(y, named, n_folds=2, n_repeats=1)
    first = whole.results.query("fold == 0").copy()
    held_out = {
        name: [replace(each, folds=np.zeros(1000, dtype=int)) for each in repeats]
        for name, repeats in whole.held_out.items()
    }
    for name, repeats in held_out.items():
        right = np.mean(repeats[0].labels == y)
        first.loc[(first["model"] == name) & (first["metric"] == "accuracy"), "value"] = right
    evidence = replace(whole, results=first, held_out=held_out, n_folds=1, test_to_train=0.5)
    verdict = decide(evidence)
    assert (verdict.kind, verdict.recommended) == ("clear winner", "b")
    assert "on the test rows" in verdict.sentence
    share = verdict.estimate.mean
    expected = 1.96 * np.sqrt(share * (1 - share) / 1000)
    assert verdict.estimate.high - verdict.estimate.corrected == pytest.approx(expected, rel=0.2)


def test_scores_of_whole_repeats_are_judged_by_rows():
    """Two repeats of the same rows differ little, but that is not how certain the score is."""
    evidence = simulated({"a": 0.75, "b": 0.77}, n_rows=300, metric="balanced_accuracy")
    folds = evidence.results
    wanted = folds["metric"] == "balanced_accuracy"
    whole = folds[wanted].groupby(["model", "repeat", "metric"])["value"].mean().reset_index()
    undefined = folds.assign(value=folds["value"].mask(wanted & (folds["fold"] == 0)))
    results = [undefined, whole.assign(fold=WHOLE_REPEAT)]
    verdict = decide(replace(evidence, results=pd.concat(results, ignore_index=True)))
    assert verdict.kind == "equally good"
    assert verdict.estimate.high - verdict.estimate.low > 0.05


def test_models_that_failed_or_were_left_out_are_listed_with_the_reason():
    evidence = simulated({"a": 0.9, "b": 0.7})
    results = evidence.results[
        ~((evidence.results["model"] == "b") & (evidence.results["fold"] > 2))
    ]
    failures = {Key("table", "b", 0, 3): "MemoryError: too large\nmore"}
    verdict = decide(
        replace(evidence, results=results, failures=failures, left_out={"c": "too slow"})
    )
    assert verdict.not_judged == {
        "b": "finished 6 of 10 folds: MemoryError: too large",
        "c": "too slow",
    }
    assert "a is the only model that was judged" in verdict.sentence


def test_folds_that_few_models_have_reached_are_not_used():
    evidence = simulated({"a": 0.9, "b": 0.7, "c": 0.8})
    early = evidence.results["repeat"] == 0
    results = evidence.results[early | (evidence.results["model"] == "a")]
    verdict = decide(replace(evidence, results=results))
    assert (verdict.recommended, verdict.not_judged) == ("a", {})
    assert "on 5 folds" in verdict.sentence


def test_lower_losses_win():
    evidence = simulated({"a": 0.9, "b": 0.7})
    results = evidence.results
    losses = results[results["metric"] == "accuracy"].assign(
        metric="log_loss", value=lambda rows: 1 - rows["value"]
    )
    evidence = replace(
        evidence, metric="log_loss", results=pd.concat([results, losses], ignore_index=True)
    )
    verdict = decide(evidence)
    assert verdict.recommended == "a"
    assert verdict.estimate.corrected >= verdict.estimate.mean


def test_equal_models_rarely_have_a_clear_winner():
    kinds = [
        decide(simulated({"a": 0.8, "b": 0.8}, n_rows=200, share=0.5, seed=seed)).kind
        for seed in range(30)
    ]
    assert kinds.count("clear winner") <= 2


def test_a_few_rows_beside_the_majority_class_do_not_beat_it_by_equal_folds():
    """Six of eight rows are right, one per fold: the folds agree better than the rows allow."""
    y = (np.arange(300) < 105).astype(int)
    labels = np.zeros((2, 300), dtype=int)
    labels[:, [0, 1, 2, 3, 4, 5, 298, 299]] = 1
    verdict = decide(evidence_of(y, {"one": labels}))
    assert verdict.p_beats_baseline < 0.95
    assert verdict.recommended is None


def test_a_model_without_errors_beats_the_majority_class_in_three_equal_folds():
    y = np.repeat([0, 1], [45, 45])
    verdict = decide(evidence_of(y, {"LSR": y[None]}, n_folds=3, n_repeats=1))
    assert verdict.recommended == "LSR"
    assert verdict.p_beats_baseline > 0.99
