"""Verdicts: what is recommended, when nothing is, and when the scores do not count."""

from dataclasses import replace

import numpy as np
import pytest
from report_findings import evidence_of, flagged

from discreg.comparison.flags import Flag
from discreg.comparison.statistics.evidence import Contender
from discreg.comparison.statistics.verdict import decide


def test_a_model_that_is_better_than_all_others_is_a_clear_winner():
    verdict = decide(evidence_of({"A": 1.0, "B": 0.0, "C": 0.0}, n=1500))
    assert (verdict.kind, verdict.recommended) == ("clear winner", "A")
    assert verdict.equivalent == ()
    assert len(verdict.sentences) == 3
    assert verdict.stability == 1


@pytest.mark.parametrize("metric", ["log_loss", "accuracy", "brier", "roc_auc"])
def test_auto_is_recommended_if_it_is_one_of_the_equally_good(metric):
    skills = {"A": 1.0, "Auto": 0.97, "B": 0.0}
    verdict = decide(evidence_of(skills, n=2000, metric=metric))
    assert (verdict.kind, verdict.recommended) == ("equally good", "Auto")
    assert "A" in verdict.equivalent
    assert "B" not in verdict.equivalent


def test_the_best_mean_is_recommended_otherwise():
    verdict = decide(evidence_of({"A": 0.97, "B": 1.0, "C": 0.0}, n=2000))
    assert verdict.kind == "equally good"
    losses = {"A": 0.0, "B": 0.0}
    evidence = evidence_of({"A": 0.97, "B": 1.0, "C": 0.0}, n=2000)
    for name in losses:
        losses[name] = evidence.sample(name).score("log_loss")
    assert verdict.recommended == min(losses, key=losses.get)


def test_the_estimate_is_that_of_the_recommended_model():
    evidence = evidence_of({"A": 1.0, "Auto": 0.9}, n=2000)
    verdict = decide(evidence)
    assert verdict.recommended == "Auto"
    assert verdict.estimate.mean == pytest.approx(evidence.sample("Auto").score("log_loss"))
    assert verdict.estimate.low < verdict.estimate.corrected < verdict.estimate.high
    assert f"{verdict.estimate.corrected:.3f}" in verdict.sentences[1]
    assert f"{verdict.baseline:.3f}" in verdict.sentences[2]


def test_class_frequencies_are_not_beaten_by_noise():
    wrong = 0
    for seed in range(40):
        chance = np.random.default_rng(seed)
        evidence = evidence_of({f"M{k}": 0.0 for k in range(8)}, n=150, seed=seed)
        y = chance.permutation(evidence.y)
        noise = {
            name: shares * np.exp(0.4 * chance.normal(size=shares.shape))
            for name, shares in evidence.held_out.items()
            if name != "majority"
        }
        held_out = {name: each / each.sum(axis=1, keepdims=True) for name, each in noise.items()}
        held_out["majority"] = evidence.held_out["majority"]
        wrong += decide(replace(evidence, y=y, held_out=held_out)).recommended is not None
    assert wrong <= 4


def test_the_best_of_many_is_corrected_for_its_selection():
    evidence = evidence_of({f"M{k}": 0.3 for k in range(20)}, n=60)
    chance = np.random.default_rng(0)
    noisy = {}
    for name, shares in evidence.held_out.items():
        spread = shares * np.exp(chance.normal(size=shares.shape) * (name != "majority"))
        noisy[name] = spread / spread.sum(axis=1, keepdims=True)
    verdict = decide(replace(evidence, held_out=noisy))
    assert verdict.estimate.corrected > verdict.estimate.mean


def test_an_unstable_choice_is_not_enough_evidence():
    chance = np.random.default_rng(3)
    evidence = evidence_of({f"M{k}": 1.0 for k in range(6)}, n=250)
    noisy = {}
    for name, shares in evidence.held_out.items():
        spread = shares * np.exp(0.7 * chance.normal(size=shares.shape) * (name != "majority"))
        noisy[name] = spread / spread.sum(axis=1, keepdims=True)
    verdict = decide(replace(evidence, held_out=noisy))
    assert verdict.stability < 0.7
    assert (verdict.kind, verdict.recommended) == ("not enough evidence", None)


def test_a_red_flag_replaces_the_recommendation_and_the_expectation():
    verdict = flagged().verdict
    assert (verdict.kind, verdict.recommended, verdict.estimate) == ("red flag", None, None)
    assert verdict.sentences[0].startswith("These scores are not those of new rows: rows of the")
    assert "--groups 'patient_id'" in verdict.sentence
    note = Flag("time order", "The rows are in the order of a date.")
    assert decide(evidence_of({"Auto": 1.0}), [note]).recommended == "Auto"


def test_models_without_all_folds_are_not_judged():
    evidence = evidence_of({"A": 1.0, "B": 0.9, "C": 1.0})
    held_out = dict(evidence.held_out)
    held_out["C"] = np.where(evidence.folds[:, None] >= 2, np.nan, held_out["C"])
    contenders = {**evidence.contenders, "C": Contender(failure="too slow", n_failures=8)}
    partial = replace(evidence, held_out=held_out, contenders=contenders)
    verdict = decide(partial)
    assert verdict.not_judged == {"C": "finished 2 of 10 folds: too slow"}
    assert verdict.recommended in ("A", "B")
    nothing = {name: np.full_like(each, np.nan) for name, each in held_out.items()}
    assert "no model was judged" in decide(replace(evidence, held_out=nothing)).sentence


def test_two_common_folds_of_ten_decide_nothing():
    evidence = evidence_of({"A": 1.0, "B": 0.9})
    late = evidence.folds[:, None] >= 2
    held_out = {name: np.where(late, np.nan, each) for name, each in evidence.held_out.items()}
    verdict = decide(replace(evidence, held_out=held_out))
    assert verdict.kind == "not enough evidence"
    assert "2 of 10 folds" in verdict.sentence


def test_a_metric_of_own_scorers_is_judged_by_its_folds():
    chance = np.random.default_rng(0)
    evidence = evidence_of({"A": 1.0, "B": 0.5}, metric="jaccard (own)", n=1000)
    contenders = {
        name: Contender(fold_scores=list(level + 0.01 * chance.normal(size=10)))
        for name, level in (("A", 0.8), ("B", 0.6), ("majority", 0.5))
    }
    verdict = decide(replace(evidence, contenders=contenders))
    assert (verdict.kind, verdict.recommended) == ("clear winner", "A")


def test_the_same_rows_in_another_order_of_models_give_the_same_verdict():
    evidence = evidence_of({"A": 1.0, "B": 0.6, "Auto": 0.9})
    turned = dict(reversed(list(evidence.held_out.items())))
    contenders = {name: evidence.contenders[name] for name in turned}
    other = decide(replace(evidence, held_out=turned, contenders=contenders))
    assert other.recommended == decide(evidence).recommended
    assert other.estimate == decide(evidence).estimate


def test_without_a_recommendation_nothing_is_said_about_its_stability():
    verdict = decide(evidence_of({"A": 0.0, "B": 0.0}, n=300))
    assert verdict.kind == "nothing is better than the class frequencies"
    assert not [title for title, _ in verdict.beside if "recommend" in title]
    other = decide(evidence_of({"A": 1.0, "B": 0.0}, n=1500))
    assert [title for title, _ in other.beside if "recommend" in title]
