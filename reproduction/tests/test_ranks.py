"""Statistics of a comparison: what noise hides is never called a difference."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from discreg_reproduction.ranks import (
    critical_difference,
    friedman_nemenyi,
    paired_p_value,
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


def test_unknown_metric_is_answered_with_those_there_are():
    with pytest.raises(ValueError, match="no metric 'recall'; they have accuracy"):
        win_tie_loss(scores_of({"a": [0.5]}), "recall")


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
