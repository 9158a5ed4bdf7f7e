"""Statistics of a comparison: what noise hides is never called a difference."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from discreg.comparison.experiment import Key
from discreg.comparison.statistics import (
    below_the_best,
    critical_difference,
    friedman_nemenyi,
    judged_results,
    paired_p_value,
    summary,
    win_tie_loss,
)

# Table 5(a) of Demšar (2006): two-tailed Nemenyi test at the 5 % level, 2 to 10 models.
DEMSAR_Q = [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164]


def rows_of(model, values, *, metric="accuracy", dataset="table", n_folds=5):
    return [
        (dataset, model, place // n_folds, place % n_folds, metric, value)
        for place, value in enumerate(values)
    ]


def table_of(*parts):
    columns = ["dataset", "model", "repeat", "fold", "metric", "value"]
    return pd.DataFrame([row for part in parts for row in part], columns=columns)


def scores_of(models, **settings):
    return table_of(*(rows_of(model, values, **settings) for model, values in models.items()))


@pytest.fixture
def noise():
    return np.random.default_rng(0).normal(scale=0.01, size=(4, 10))


def test_summary_has_mean_and_interval_of_the_corrected_variance():
    values = np.array([0.8, 0.9, 0.7, 0.8, 0.85, 0.75, 0.9, 0.8, 0.7, 0.8])
    row = summary(scores_of({"a": values}), "accuracy").loc["a"]
    error = np.sqrt((1 / 10 + 1 / 4) * values.var(ddof=1))
    low, high = stats.t.interval(0.95, 9, loc=values.mean(), scale=error)
    assert row["mean"] == pytest.approx(values.mean(), rel=1e-14)
    assert row["std"] == pytest.approx(values.std(ddof=1), rel=1e-14)
    assert (row["low"], row["high"]) == pytest.approx((low, high), rel=1e-12)
    assert row["n_folds"] == 10


@pytest.mark.parametrize(
    ("metric", "order"), [("accuracy", ["c", "a", "b"]), ("log_loss", ["b", "a", "c"])]
)
def test_summary_begins_with_the_best(metric, order):
    results = scores_of({"a": [0.5, 0.6], "b": [0.1, 0.2], "c": [0.8, 0.9]}, metric=metric)
    assert list(summary(results, metric).index) == order


def test_summary_counts_only_folds_that_have_a_value():
    row = summary(scores_of({"a": [0.5, np.nan, 0.7]}), "accuracy").loc["a"]
    assert (row["mean"], row["n_folds"]) == (pytest.approx(0.6), 2)


@pytest.mark.parametrize(("values", "end"), [([0.5], np.nan), ([0.5, 0.5], 0.5)])
def test_one_fold_has_no_interval_and_equal_folds_have_no_width(values, end):
    row = summary(scores_of({"a": values}), "accuracy").loc["a"]
    assert list(row[["mean", "low", "high"]]) == pytest.approx([0.5, end, end], nan_ok=True)


def test_scores_of_several_data_sets_have_no_common_summary():
    results = table_of(rows_of("a", [0.5], dataset="x"), rows_of("a", [0.7], dataset="y"))
    with pytest.raises(ValueError, match="2 data sets cannot be averaged"):
        summary(results, "accuracy")


def test_unknown_metric_is_answered_with_those_there_are():
    with pytest.raises(ValueError, match="no metric 'recall'; they have accuracy"):
        summary(scores_of({"a": [0.5]}), "recall")


# The paired test


def test_plain_p_value_is_that_of_the_paired_t_test(noise):
    a, b = noise[:2]
    assert paired_p_value(a - b) == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-12)


def test_correction_divides_the_statistic_by_the_growth_of_the_error(noise):
    differences = noise[0] + 0.01
    t = stats.ttest_1samp(differences, 0).statistic
    corrected = t * np.sqrt((1 / 10) / (1 / 10 + 1 / 4))
    expected = 2 * stats.t.sf(abs(corrected), 9)
    assert paired_p_value(differences, test_to_train=1 / 4) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("differences", [[0.0, 0.0, 0.0], [0.3], [], [np.nan, 0.2], [0.1, -0.1]])
def test_nothing_to_tell_apart_has_p_value_one(differences):
    assert paired_p_value(differences) == 1.0


@pytest.mark.parametrize(("n", "expected"), [(2, 0.5), (5, 0.0625), (10, 2**-9)])
def test_equal_differences_are_judged_by_the_sign_test(n, expected):
    differences = np.full(n, 0.9) - np.full(n, 0.8)
    assert paired_p_value(differences, test_to_train=0.25) == expected
    assert expected == pytest.approx(stats.binomtest(n, n).pvalue, rel=1e-12)


# Wins, ties and losses


def test_wins_over_data_sets_are_counted_by_plain_paired_t_tests(noise):
    parts = []
    for dataset, lead in {"x": 0.1, "y": 0.1, "z": 0.0, "w": -0.1}.items():
        parts.append(rows_of("odm", 0.8 + lead + noise[0], dataset=dataset))
        parts.append(rows_of("svm", 0.8 + noise[1], dataset=dataset))
    counts = win_tie_loss(table_of(*parts), "accuracy")
    assert counts.loc[("odm", "svm")].to_dict() == {"win": 2, "tie": 1, "loss": 1}
    assert counts.loc[("svm", "odm")].to_dict() == {"win": 1, "tie": 1, "loss": 2}


def test_one_data_set_is_judged_by_the_corrected_test(noise):
    lead = noise[0] - noise[0].mean() + 0.009
    assert paired_p_value(lead) < 0.05 < paired_p_value(lead, test_to_train=1 / 4)
    one = [rows_of("a", 0.8 + lead), rows_of("b", np.full(10, 0.8))]
    assert win_tie_loss(table_of(*one), "accuracy").loc[("a", "b"), "tie"] == 1
    two = [
        rows_of(model, values, dataset=dataset)
        for dataset in ("x", "y")
        for model, values in {"a": 0.8 + lead, "b": np.full(10, 0.8)}.items()
    ]
    assert win_tie_loss(table_of(*two), "accuracy").loc[("a", "b"), "win"] == 2


def test_lower_losses_win(noise):
    results = scores_of({"a": 0.2 + noise[0], "b": 0.5 + noise[1]}, metric="log_loss")
    assert win_tie_loss(results, "log_loss").loc[("a", "b"), "win"] == 1


def test_pairs_without_two_common_folds_do_not_count():
    results = scores_of({"a": [0.5, np.nan, 0.7], "b": [np.nan, 0.5, 0.9]})
    assert win_tie_loss(results, "accuracy").loc[("a", "b")].sum() == 0


def test_one_model_has_no_pairs():
    assert win_tie_loss(scores_of({"a": [0.5, 0.6]}), "accuracy").empty


# The verdict


def timed(models, seconds, **settings):
    return pd.concat(
        [
            scores_of(models, **settings),
            scores_of(
                {model: [seconds[model]] * len(values) for model, values in models.items()},
                metric="fit_seconds",
            ),
        ],
        ignore_index=True,
    )


def test_a_lead_within_noise_is_called_so_and_the_quickest_is_named(noise):
    models = {"slow": 0.9 + noise[0], "quick": 0.899 + noise[1], "bad": 0.6 + noise[2]}
    verdict = below_the_best(timed(models, {"slow": 9, "quick": 1, "bad": 0.1}), "accuracy")
    assert (verdict.best, verdict.tied, verdict.below) == ("slow", ["quick"], ["bad"])
    assert verdict.sentence == (
        "slow has the highest mean accuracy, but quick is not significantly worse on these 10 "
        "folds; quick was the fastest of them to fit."
    )


def test_equal_means_are_called_equal_and_the_first_is_taken(noise):
    equal = 0.9 + noise[0]
    models = {"b": equal, "a": np.roll(equal, 3), "bad": 0.6 + noise[2]}
    verdict = below_the_best(timed(models, {"b": 9, "a": 1, "bad": 0.1}), "accuracy")
    assert (verdict.best, verdict.tied, verdict.below) == ("b", ["a"], ["bad"])
    assert verdict.sentence == (
        "b and a have the same mean accuracy, the highest, on these 10 folds; a was the fastest "
        "of them to fit."
    )
    models["near"] = 0.8999 + noise[1] - noise[1].mean() + noise[0].mean()
    sentence = below_the_best(scores_of(models), "accuracy").sentence
    assert sentence == (
        "b and a have the same mean accuracy, the highest, and near is not significantly worse "
        "on these 10 folds."
    )


def test_intervals_of_an_early_end_are_those_of_the_folds_of_the_design(noise):
    results = scores_of({"a": 0.9 + noise[0], "b": 0.8 + noise[1]})
    some = results[(results["repeat"] == 0) & (results["fold"] < 2)]
    row = summary(some, "accuracy", n_folds=5).loc["a"]
    scores = some.loc[some["model"] == "a", "value"]
    error = scores.std(ddof=1) * np.sqrt(1 / 2 + 1 / 4)
    assert row["high"] - row["mean"] == pytest.approx(error * stats.t.isf(0.025, 1))
    lead = 0.1 + noise[0, :2] - noise[1, :2]
    verdict = below_the_best(some, "accuracy", n_folds=5)
    assert verdict.p_values["b"] == pytest.approx(paired_p_value(lead, test_to_train=1 / 4))


def test_clear_lead_is_called_one(noise):
    models = {"a": 0.9 + noise[0], "b": 0.6 + noise[1], "c": 0.5 + noise[2]}
    verdict = below_the_best(timed(models, {"a": 9, "b": 1, "c": 1}), "accuracy")
    assert (verdict.best, verdict.tied, verdict.below) == ("a", [], ["b", "c"])
    assert "its lead over each of b and c is significant on these 10 folds" in verdict.sentence


def test_smallest_loss_is_the_best(noise):
    results = scores_of({"a": 0.9 + noise[0], "b": 0.2 + noise[1]}, metric="log_loss")
    verdict = below_the_best(results, "log_loss")
    assert (verdict.best, verdict.below) == ("b", ["a"])
    assert "lowest mean log-loss" in verdict.sentence


def test_p_values_are_corrected_for_all_pairs_of_models(noise):
    lead = noise[0] - noise[0].mean() + 0.0115
    alone = {"a": 0.9 + lead, "b": np.full(10, 0.9)}
    p_value = paired_p_value(lead, test_to_train=1 / 4)
    assert p_value < 0.05 < 2 * p_value
    assert below_the_best(scores_of(alone), "accuracy").below == ["b"]
    verdict = below_the_best(scores_of(alone | {"c": 0.9 + lead - 0.001}), "accuracy")
    assert verdict.p_values["c"] == pytest.approx(3 * 2**-9)  # of three pairs
    assert verdict.p_values["b"] == pytest.approx(1.5 * p_value)
    verdict = below_the_best(scores_of(alone | {"c": 0.9 + lead + 1e-4 * noise[1]}), "accuracy")
    assert min(verdict.p_values.values()) == pytest.approx(3 * p_value, rel=0.02)
    assert verdict.below == []


def test_corrected_p_values_never_fall_as_the_raw_ones_rise():
    base = np.random.default_rng(1).normal(scale=0.02, size=(8, 10))
    models = {str(place): 0.8 - 0.005 * place + row for place, row in enumerate(base)}
    verdict = below_the_best(scores_of(models), "accuracy")
    raw = {
        name: paired_p_value(models[verdict.best] - models[name], test_to_train=1 / 4)
        for name in verdict.p_values
    }
    in_order = [verdict.p_values[name] for name in sorted(raw, key=raw.get)]
    assert in_order == sorted(in_order)
    assert in_order[0] == pytest.approx(min(1, 28 * min(raw.values())))  # pairs of eight


def test_pure_noise_rarely_has_a_winner():
    chance = np.random.default_rng(0)
    n_called = 0
    for _ in range(100):
        draws = chance.normal(0.8, 0.03, size=(6, 10))
        models = {str(place): values for place, values in enumerate(draws)}
        n_called += bool(below_the_best(scores_of(models), "accuracy").below)
    assert n_called <= 5


def test_two_folds_of_equal_difference_call_no_winner():
    verdict = below_the_best(scores_of({"a": [0.9, 0.9], "b": [0.8, 0.8]}), "accuracy")
    assert (verdict.best, verdict.tied, verdict.below) == ("a", ["b"], [])


def test_one_model_is_compared_with_none():
    verdict = below_the_best(scores_of({"a": [0.9, 0.8]}), "accuracy")
    assert (verdict.best, verdict.tied) == ("a", [])
    assert "there is no comparison" in verdict.sentence


def test_model_that_failed_is_listed_with_the_reason(noise):
    results = scores_of({"a": 0.8 + noise[0], "b": 0.99 + noise[1, :9]})
    failures = {
        Key("table", "b", 1, 4): "MemoryError: 12 GB\nmore",
        Key("table", "c", 0, 0): "ValueError: no",
    }
    verdict = below_the_best(results, "accuracy", failures=failures)
    assert (verdict.best, verdict.n_folds) == ("a", 10)
    assert verdict.incomplete == {
        "b": "finished 9 of 10 folds: MemoryError: 12 GB",
        "c": "finished 0 of 10 folds: ValueError: no",
    }


def test_model_with_an_undefined_score_is_not_judged():
    results = scores_of({"a": [0.5, 0.6], "b": [0.1, np.nan]}, metric="log_loss")
    verdict = below_the_best(results, "log_loss")
    assert verdict.best == "a"
    assert verdict.incomplete == {"b": "log-loss is undefined on 1 of 2 folds"}


def test_model_that_never_has_the_metric_is_not_judged():
    results = pd.concat(
        [scores_of({"a": [0.5, 0.6]}, metric="log_loss"), scores_of({"b": [0.9, 0.9]})]
    )
    verdict = below_the_best(results, "log_loss")
    assert verdict.incomplete == {"b": "log-loss is undefined on 2 of 2 folds"}


def test_fold_that_few_models_have_reached_is_not_judged(noise):
    models = {str(place): 0.8 + row[:7] for place, row in enumerate(noise)}
    models["0"] = 0.8 + noise[0, :8]
    verdict = below_the_best(scores_of(models), "accuracy")
    assert (verdict.n_folds, verdict.incomplete) == (7, {})


def test_model_that_has_only_begun_does_not_take_the_folds_of_the_others(noise):
    models = {"a": 0.8 + noise[0], "b": 0.8 + noise[1], "late": 0.8 + noise[2, :2]}
    verdict = below_the_best(scores_of(models), "accuracy")
    assert (verdict.n_folds, verdict.incomplete) == (10, {"late": "finished 2 of 10 folds"})


def test_judged_results_are_those_of_the_verdict(noise):
    models = {"a": 0.8 + noise[0, :8], "b": 0.8 + noise[1, :7], "c": 0.8 + noise[2, :7]}
    models["late"] = 0.8 + noise[3, :2]
    judged = judged_results(timed(models, dict.fromkeys(models, 1.0)), "accuracy")
    assert set(judged["model"]) == {"a", "b", "c"}
    assert set(judged["metric"]) == {"accuracy", "fit_seconds"}
    assert judged.groupby(["model", "metric"]).size().eq(7).all()


def test_nothing_finished_recommends_nothing():
    verdict = below_the_best(scores_of({"a": [np.nan, np.nan]}), "accuracy")
    assert (verdict.best, verdict.n_folds) == (None, 0)
    assert "none can be recommended" in verdict.sentence


def test_without_times_nothing_is_said_of_them(noise):
    verdict = below_the_best(scores_of({"a": 0.9 + noise[0], "b": 0.899 + noise[1]}), "accuracy")
    assert verdict.sentence.endswith("b is not significantly worse on these 10 folds.")


def test_long_lists_name_the_quickest_model(noise):
    models = {f"m{place}": 0.9 - 1e-5 * place + noise[0] for place in range(9)}
    models = {name: values + 0.001 * noise[1] * int(name[1]) for name, values in models.items()}
    seconds = dict.fromkeys(models, 5.0) | {"m7": 1.0}
    verdict = below_the_best(timed(models, seconds), "accuracy")
    assert len(verdict.tied) == 8
    assert "but m7, " in verdict.sentence
    assert " and 5 others are not significantly worse" in verdict.sentence


# Ranks


def several_datasets(n_models, n_datasets, *, decimals=6):
    values = np.random.default_rng(2).normal(size=(n_datasets, n_models)).round(decimals)
    results = table_of(
        *(
            rows_of(f"m{model}", [values[place, model] - 0.1, values[place, model] + 0.1])
            for place in range(n_datasets)
            for model in range(n_models)
        )
    )
    results["dataset"] = np.repeat([f"d{place}" for place in range(n_datasets)], 2 * n_models)
    return results, values


@pytest.mark.parametrize("decimals", [6, 0])  # without and with many ties
def test_friedman_statistic_is_that_of_scipy(decimals):
    results, values = several_datasets(5, 12, decimals=decimals)
    ranking = friedman_nemenyi(results, "accuracy")
    expected = stats.friedmanchisquare(*values.T)
    assert ranking.statistic == pytest.approx(expected.statistic, rel=1e-10)
    assert ranking.p_value == pytest.approx(expected.pvalue, rel=1e-10)
    assert (ranking.blocks, ranking.n_blocks, ranking.caution) == ("data sets", 12, "")


def test_mean_ranks_begin_with_the_best():
    results, values = several_datasets(4, 9)
    ranking = friedman_nemenyi(results, "accuracy")
    expected = stats.rankdata(-values, axis=1).mean(axis=0)
    for place, rank in enumerate(expected):
        assert ranking.mean_ranks[f"m{place}"] == pytest.approx(rank)
    assert ranking.mean_ranks.is_monotonic_increasing
    results["metric"] = "log_loss"
    assert friedman_nemenyi(results, "log_loss").mean_ranks["m0"] == pytest.approx(5 - expected[0])


@pytest.mark.parametrize(("n_models", "q"), list(zip(range(2, 11), DEMSAR_Q, strict=True)))
def test_critical_difference_has_the_published_quantiles(n_models, q):
    scale = np.sqrt(n_models * (n_models + 1) / (6 * 30))
    # the published values have errors of one in their last digit
    assert critical_difference(n_models, 30) / scale == pytest.approx(q, abs=0.0011)


def test_folds_of_one_data_set_are_ranked_with_a_caution(noise):
    results = scores_of({"a": 0.9 + noise[0], "b": 0.8 + noise[1]})
    ranking = friedman_nemenyi(results, "accuracy")
    assert (ranking.blocks, ranking.n_blocks) == ("folds", 10)
    assert "not independent" in ranking.caution
    assert dict(ranking.mean_ranks) == {"a": 1.0, "b": 2.0}


def test_scores_that_differ_by_rounding_share_a_rank():
    results = scores_of({"a": [0.1 + 0.2, 0.5], "b": [0.3, 0.5], "c": [0.3, 0.5]})
    ranking = friedman_nemenyi(results, "accuracy")
    assert list(ranking.mean_ranks) == [2.0, 2.0, 2.0]
    assert (ranking.statistic, ranking.p_value) == (0.0, 1.0)


def test_models_without_every_block_are_left_out_of_the_ranks():
    results, _ = several_datasets(4, 6)
    results.loc[3 * 8 + 1, "value"] = np.nan
    missing = results.loc[25, "model"]
    ranking = friedman_nemenyi(results, "accuracy")
    assert ranking.left_out == (missing,)
    assert missing not in ranking.mean_ranks


def test_ranks_need_two_models():
    with pytest.raises(ValueError, match="at least two models"):
        friedman_nemenyi(scores_of({"a": [0.5, 0.6]}), "accuracy")
