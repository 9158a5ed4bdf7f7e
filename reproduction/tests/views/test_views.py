"""The views of studies: which numbers they show, and what they say about them."""

from dataclasses import asdict, replace

import numpy as np
import pytest
from study_results import (
    SWEEPS,
    arrays_of,
    as_reported,
    blocks_of,
    cell_of,
    everything,
    frame,
    of_kind,
    results_of,
    shown,
)

from discreg_reproduction.paper_values import Reported, reported
from discreg_reproduction.papers import studies
from discreg_reproduction.views import VIEWS, Agreement, Evidence, Grid, Picture, Text, show
from discreg_reproduction.views.blocks import Score
from discreg_reproduction.views.tables import agreement


def test_every_view_of_every_study_is_known():
    assert {view for study in studies().values() for view in study.views} == set(VIEWS)


@pytest.mark.parametrize("name", studies())
def test_every_study_can_be_shown(name):
    blocks = everything(name)
    study = studies()[name]
    assert not any("There is no" in block.text for block in of_kind(blocks, Text))
    for grid in of_kind(blocks, Grid):
        if grid.header[0] == "data set":
            assert [row[0] for row in grid.rows] == list(study.datasets)
        assert {len(row) for row in grid.rows} == {len(grid.header)}
    pictures = of_kind(blocks, Picture)
    assert bool(pictures) == (study.views != ("table",))
    assert all(len(picture.svg) < 150_000 for picture in pictures)
    assert len({picture.name for picture in pictures}) == len(pictures)
    assert all(picture.name.startswith(name.replace("/", "-")) for picture in pictures)


def test_pictures_of_all_studies_have_different_names():
    names = [p.name for name in studies() for p in of_kind(everything(name), Picture)]
    assert len(set(names)) == len(names)


# The table


def test_ours_stands_over_theirs_and_the_difference():
    """SVM on adult-a: 0.845 ± 0.002 reported."""
    results = frame(
        *(("adult-a", "SVM", k, 0, "accuracy", x) for k, x in enumerate([0.84, 0.85, 0.86]))
    )
    grid, *_ = shown("odm/table4", results)
    assert cell_of(grid, "adult-a", "SVM") == "0.850 ± 0.010\n0.845 ± 0.002 (+2.5σ)"
    assert cell_of(grid, "adult-a", "LDA") == "–\n0.719 ± 0.003"
    assert "over 3 fits" in grid.caption
    assert [row[0] for row in grid.rows] == ["adult-a"]


def test_what_is_not_reported_is_shown_alone():
    grid, *_ = shown("odm/table4", frame(("farm-ads", "LDA", 0, 0, "accuracy", 0.5)))
    assert cell_of(grid, "farm-ads", "LDA") == "0.500"
    assert "of one fit" in grid.caption


def test_without_a_deviation_the_difference_is_plain():
    """rcv1 has a reported deviation of 0.000, UCI Poker none."""
    grid, *_ = shown("odm/table4", frame(("rcv1", "SVM", 0, 0, "accuracy", 0.965)))
    assert cell_of(grid, "rcv1", "SVM") == "0.965\n0.969 ± 0.000 (−0.004)"
    grid, *_ = shown("drm/table4", frame(("UCI Poker", "L1-SVM", 0, 0, "accuracy", 0.315)))
    assert cell_of(grid, "UCI Poker", "L1-SVM") == "0.315\n0.315 (+0.000)"


@pytest.mark.parametrize("name", ["drm/table2", "drm/table7"])
def test_of_two_scalings_the_larger_mean_counts(name):
    study = studies()[name]
    dataset, method = next(iter(study.datasets)), "KNN(E)"
    values = {"plain": [0.6, 0.8], "scaled": [0.5, 0.85]}
    rows = [
        (dataset, method, 0, fold, f"{study.metric}[scaling={scaling}]", value)
        for scaling, of_scaling in values.items()
        for fold, value in enumerate(of_scaling)
    ]
    bare = [(dataset, method, 0, fold, study.metric, 0.99) for fold in range(2)]
    forest = [(dataset, "RF", 0, 0, f"{study.metric}[scaling=plain]", 0.25)]
    grid, trained, *_ = shown(name, frame(*rows, *bare, *forest))
    assert cell_of(grid, dataset, method).startswith("0.7000 ± 0.1414\n")
    assert cell_of(grid, dataset, "RF").startswith("0.2500\n")
    assert "the larger of both" in grid.caption
    assert "the scaling is selected on the test part" in grid.caption
    assert cell_of(trained, dataset, method) == "0.9900 ± 0.0000"
    assert cell_of(trained, dataset, "RF") == "–"
    assert "the scaling selected on the training part" in trained.caption


@pytest.mark.parametrize("name", ["drm/table2", "drm/table4", "drm/table7", "odm/table3"])
def test_the_reported_numbers_agree_with_themselves(name):
    (found,) = of_kind(shown(name, as_reported(name)), Agreement)
    theirs = reported(name)
    n_judged = sum(bool(value.std) for value in theirs.values())
    n_datasets = len(studies()[name].datasets)
    assert found == Agreement(
        len(theirs), n_judged, n_judged, n_judged, 0.0, n_datasets, n_datasets
    )


def test_agreement_counts_by_hand():
    theirs = {
        ("a", "m"): Reported(0.50, 0.02),
        ("a", "n"): Reported(0.60, 0.01),
        ("b", "m"): Reported(0.70, 0.00),
        ("b", "n"): Reported(0.70, None),
        ("c", "m"): Reported(0.10, 0.10),  # c: of two reported methods we have one
        ("c", "n"): Reported(0.20, 0.10),
    }
    ours = {("a", "m"): 0.52, ("a", "n"): 0.575, ("b", "m"): 0.6, ("b", "n"): 0.7, ("c", "m"): 0.25}
    scores = {key: Score(mean, np.nan, 1) for key, mean in ours.items()}
    found = agreement(scores, theirs)
    assert (found.n_values, found.n_judged) == (5, 3)
    assert (found.within_one, found.within_two) == (1, 2)
    assert found.mean_difference == pytest.approx((0.02 + 0.025 + 0.1 + 0 + 0.15) / 5)
    assert (found.n_datasets, found.same_best) == (2, 2)
    assert "Of 3 with a reported standard deviation, 1 differ by at most one" in found.text
    worse = scores | {("a", "n"): Score(0.3, np.nan, 1)}
    assert agreement(worse, theirs).same_best == 1
    assert agreement({}, theirs) is None
    assert "The paper's best method is among our best on 2 of 2 data sets." in found.text


def test_of_losses_the_smallest_is_the_best():
    """m has the smallest loss there and n here; k has the largest in both."""
    printed, found = {"m": 0.5, "n": 0.6, "k": 0.7}, {"m": 0.4, "n": 0.3, "k": 0.8}
    theirs = {("a", method): Reported(loss, None) for method, loss in printed.items()}
    ours = {("a", method): Score(loss, np.nan, 1) for method, loss in found.items()}
    assert agreement(ours, theirs, lower_is_better=True).same_best == 0
    assert agreement(ours, theirs).same_best == 1
    losses = {"LSR": 0.75, "DLSR": 0.0, "ReLSR": 0.1}  # printed: 0.75, 0.50 and 0.00
    blocks = shown("relsr/table1", frame(*(("x3", m, 0, 0, "loss", x) for m, x in losses.items())))
    (said,) = of_kind(blocks, Agreement)
    assert (said.n_values, said.n_datasets, said.same_best) == (3, 1, 0)


def test_losses_stand_over_their_targets():
    """x1 of Table I of the paper is (1.5, 0, 0): 0.25 from (1, 0, 0)."""
    targets = [("x1", "LSR", 0, 0, f"target[class={k}]", x) for k, x in ((1, 1), (2, -0.0), (3, 0))]
    (grid, *_) = shown("relsr/table1", frame(("x1", "LSR", 0, 0, "loss", 0.25), *targets))
    assert grid.rows == (("x1", "0.25\n0.25 (+0.000)\n(1, 0, 0)", "–\n0", "–\n0"),)


def test_a_study_of_one_method_has_a_column_a_number():
    grid = everything("lowrank/fig1")[0]
    assert grid.header == ("data set", "rank", "used features", "accuracy")
    assert grid.rows[0][:3] == ("UMIST", "12", "0.25")


# Pictures


def test_logarithmic_bars_are_said_to_be_so():
    rows = [("adult-a", "SVM_l", 0, 0, "fit_seconds", 1.0)]
    far = shown("odm/fig2", frame(*rows, ("adult-a", "ODM", 0, 0, "fit_seconds", 200.0)))
    near = shown("odm/fig2", frame(*rows, ("adult-a", "ODM", 0, 0, "fit_seconds", 2.0)))
    assert "logarithmic" in of_kind(far, Picture)[0].caption
    assert "logarithmic" not in of_kind(near, Picture)[0].caption


def test_of_histories_that_fall_at_once_the_distance_is_drawn():
    results = frame(("Shuttle", "DRM-GD", 0, 0, "iterations", 4.0))
    falls = np.array([0.0, -0.2143, -0.2153, -0.21540, -0.215401])
    arrays = {("Shuttle", "DRM-GD"): {"history": falls}}
    picture, grid, *_ = shown("drm/fig3", results, arrays=arrays)
    assert "less the smallest value" in picture.caption
    assert picture.caption.endswith("The vertical axes are logarithmic.")
    assert cell_of(grid, "Shuttle", "DRM-GD") == "-0.2154 after 4"
    arrays = {("Shuttle", "DRM-GD"): {"history": np.array([3.0, 2.0, 1.5, 1.3])}}
    picture, *_ = shown("drm/fig3", results, arrays=arrays)
    assert picture.caption == "The objective of the first fit by iteration."


def test_bars_have_their_numbers_once():
    assert len(of_kind(everything("relsr/fig2"), Grid)) == 1
    assert len(of_kind(everything("lowrank/table2"), Grid)) == 1


def test_curves_say_where_the_best_is():
    values = {"10": 0.5, "11": 0.9, "12": 0.7}
    rows = [
        ("VOWEL", "LRLR", fold, 0, f"accuracy[rank={rank}]", value + step)
        for rank, value in values.items()
        for fold, step in enumerate([-0.01, 0.01])
    ]
    level = [("VOWEL", "SLRR", 0, 0, f"accuracy[rank={rank}]", 0.6) for rank in values]
    picture, grid, *_ = shown("lowrank/fig2", frame(*rows, *level))
    assert cell_of(grid, "VOWEL", "LRLR") == "0.900 at 11"
    assert cell_of(grid, "VOWEL", "SLRR") == "0.600 throughout"
    assert cell_of(grid, "VOWEL", "LRRR") == "–"
    assert picture.name == "lowrank-fig2-curve"


def test_curves_of_seconds_are_told_at_their_ends():
    rows = [("Shuttle", "DRM-GD", 0, 0, f"seconds[n={n}]", n / 1e6) for n in (60_000, 2_000, 5_000)]
    _, grid, *_ = shown("drm/fig2", frame(*rows))
    assert cell_of(grid, "Shuttle", "DRM-GD") == "0.002 at 2000\n0.06 at 60000"


def test_scalings_are_no_curve():
    study = replace(studies()["drm/table7"], views=("curve",))
    results = results_of("drm/table7")
    text, *_ = show(Evidence(study, results, arrays={}, majority={}, missing={}))
    assert text == Text("There is no G-mean at several values of a parameter.")


@pytest.mark.parametrize("name", ["drm/fig3", "odm/fig1", "lowrank/fig1"])
def test_without_arrays_a_view_says_so(name):
    texts = of_kind(shown(name, results_of(name)), Text)
    assert any(text.text.endswith("to draw.") for text in texts)


def test_last_objectives_and_iterations_are_told():
    arrays = {("Shuttle", "DRM-GD"): {"history": np.array([3.0, 2.0, 1.5])}}
    results = frame(("Shuttle", "DRM-GD", 0, 0, "iterations", 2.0))
    _, grid, *_ = shown("drm/fig3", results, arrays=arrays)
    assert grid.rows == (("Shuttle", "1.5 after 2", "–", "–"),)


def test_margins_are_told_by_mean_and_deviation():
    arrays = {("heart", "ODM"): {"margins": np.array([0.0, 2.0])}}
    results = frame(("heart", "ODM", 0, 0, "margin_mean", 1.0))
    _, grid, *_ = shown("odm/fig1", results, arrays=arrays)
    assert grid.rows == (("heart", "–", "–", "1 ± 1"),)


# Ranks


def ranked(n_datasets, incomplete=()):
    """The methods of relsr/fig3 in one and the same order on every data set."""
    study = studies()["relsr/fig3"]
    return frame(
        *(
            (dataset, method, 0, 0, "accuracy", 0.9 - 0.01 * place)
            for dataset in list(study.datasets)[:n_datasets]
            for place, method in enumerate(study.methods)
            if not (dataset in incomplete and place)
        )
    )


def test_ranks_are_told_with_what_is_told_apart():
    picture, text, *_ = shown("relsr/fig3", ranked(15))
    assert picture.name == "relsr-fig3-critical-difference"
    methods = list(studies()["relsr/fig3"].methods)
    assert f"{methods[0]} 1.00, {methods[1]} 2.00" in text.text
    assert "15 data sets" in text.text
    assert "p < 0.001" in text.text
    assert "L1-SVM has the best mean rank. Its lead over LR, LSR, DLSR and ReLSR is" in text.text
    assert "is beyond the critical difference; over L2-SVM and MC-SVM it is not." in text.text


def test_ranks_that_nothing_tells_apart_are_said_to_be_within():
    _, text, *_ = shown("relsr/fig3", ranked(2))
    assert "Its lead over every other method is within the critical difference." in text.text


def test_a_data_set_without_every_method_is_not_ranked():
    _, text, *_ = shown("relsr/fig3", ranked(15, incomplete=("iris", "USPS")))
    assert "13 data sets" in text.text


def test_why_there_are_no_ranks():
    text, *_ = shown("relsr/fig3", ranked(1))
    assert "There is no critical-difference diagram." in text.text
    assert "at least two" in text.text


# What did not run


def test_data_sets_that_did_not_run_are_named_with_the_reasons():
    datasets = ["UCI Poker", "IJCNN1"]
    reason = {"Shuttle": "data not available here", "SensIT Vehicle (A)": "data not available here"}
    *_, text = blocks_of("drm/table4", datasets=datasets, missing=reason)
    assert text == Text(
        "Not run: SensIT Vehicle (A) and Shuttle (data not available here); "
        "SensIT Vehicle (S) (no results)."
    )


def test_no_results_at_all_are_said_to_be_none():
    name = "lowrank/fig2"
    first, last = shown(name, frame(), missing=dict.fromkeys(studies()[name].datasets, "no data"))
    assert first == Text("There are no results yet.")
    assert last.text.startswith("Not run: UMIST, ")
    assert last.text.endswith("(no data).")


@pytest.mark.parametrize("name", SWEEPS)
def test_sweeps_draw_every_data_set(name):
    (picture,) = of_kind(everything(name), Picture)
    assert all(dataset in picture.svg for dataset in studies()[name].datasets)


def test_arrays_of_other_data_sets_are_not_drawn():
    arrays = arrays_of("odm/fig1") | {("elsewhere", "ODM"): {"margins": np.ones(3)}}
    blocks = shown("odm/fig1", results_of("odm/fig1"), arrays=arrays)
    (picture,) = of_kind(blocks, Picture)
    assert "elsewhere" not in picture.svg


# Variants of the protocol, and what differs from the paper's data


def test_a_variant_is_shown_beside_the_papers_value_and_not_counted():
    """ODM^L on adult-a: 0.846 ± 0.003 reported."""
    results = frame(("adult-a", "ODM^L, (5)", 0, 0, "accuracy", 0.840))
    blocks = shown("odm/table4", results)
    assert cell_of(blocks[0], "adult-a", "ODM^L, (5)") == "0.840\n0.846 ± 0.003 (−2.0σ)"
    assert of_kind(blocks, Agreement) == []


def test_data_that_differ_from_the_papers_are_named():
    results = frame(*((name, "SVM", 0, 0, "accuracy", 0.9) for name in ("wdbc", "sonar")))
    texts = [block.text for block in of_kind(shown("odm/table2", results), Text)]
    (text,) = (each for each in texts if each.startswith("The data sets, where they may differ"))
    assert "wdbc (569 x 30 here, 569 x 14 in the paper; which 14 of the 30" in text
    assert "sonar" not in text


def test_random_directions_are_shown_where_eigenvalues_are_tied():
    rows = [
        ("UMIST", "LRLR", 0, fold, f"{metric}[rank=10]", value)
        for fold in (0, 1)
        for metric, value in (("accuracy", 0.9), ("accuracy_min", 0.7), ("accuracy_max", 0.95))
    ]
    *_, grid = of_kind(shown("lowrank/fig2", frame(*rows)), Grid)
    assert grid.rows == (("UMIST", "10", "0.900", "0.700", "0.950"),)


# Numbers of an earlier run


def earlier_of(method="SVM", *, mean=0.9, n_fits=5, datasets=("heart", "sonar")):
    """Accuracies of one method in an earlier run, by data set, method and metric."""
    return {
        (dataset, method, "accuracy"): Score(mean, 0.01, n_fits, earlier=True)
        for dataset in datasets
    }


def test_of_two_runs_the_one_with_more_fits_is_shown():
    results = frame(
        *(("heart", "SVM", repeat, 0, "accuracy", 0.8) for repeat in range(3)),
        *(("sonar", "SVM", repeat, 0, "accuracy", 0.7) for repeat in range(5)),
    )
    grid, *_ = shown("odm/table2", results, earlier=earlier_of())
    assert cell_of(grid, "heart", "SVM").startswith("0.900 ± 0.010\n")
    assert cell_of(grid, "sonar", "SVM").startswith("0.700 ± 0.000\n")
    assert cell_of(grid, "sonar", "LDA").startswith("–\n")


def test_a_summary_of_the_earlier_run_is_kept_until_one_of_its_numbers_is_new():
    """It was computed from means that were not rounded."""
    numbers = Agreement(2, 2, 1, 2, 0.01, 0, 0)
    about = {("", "", name): Score(value, np.nan, 0) for name, value in asdict(numbers).items()}
    earlier = {**earlier_of(), **about}
    before = shown("odm/table2", frame(), earlier=earlier)
    assert of_kind(before, Agreement) == [numbers]
    variant = frame(("heart", "ODM^L, (5)", 0, 0, "accuracy", 0.8))
    assert of_kind(shown("odm/table2", variant, earlier=earlier), Agreement) == [numbers]
    new = frame(("heart", "ODM", 0, 0, "accuracy", 0.8))
    (found,) = of_kind(shown("odm/table2", new, earlier=earlier), Agreement)
    assert found.n_values == 3


def test_paired_tests_of_the_earlier_run_are_kept_if_its_fits_are_needed():
    counts = {
        ("", "ODM", f"{outcome}[against=SVM]"): Score(n, np.nan, 0)
        for n, outcome in enumerate(("wins", "ties", "losses"))
    }
    earlier = {**earlier_of(), **earlier_of("ODM"), **counts}
    (summary,) = (
        grid
        for grid in of_kind(shown("odm/table2", frame(), earlier=earlier), Grid)
        if grid.header[0] == "summary"
    )
    assert cell_of(summary, "win/tie/loss against SVM", "ODM") == "0/1/2"
    own = [
        (dataset, method, repeat, 0, "accuracy", accuracy + 0.001 * repeat**place)
        for dataset in ("heart", "sonar")
        for place, (method, accuracy) in enumerate((("SVM", 0.7), ("ODM", 0.8)))
        for repeat in range(6)
    ]
    (summary,) = (
        grid
        for grid in of_kind(shown("odm/table2", frame(*own), earlier=earlier), Grid)
        if grid.header[0] == "summary"
    )
    assert cell_of(summary, "win/tie/loss against SVM", "ODM") == "2/0/0"


def test_mean_ranks_of_the_earlier_run_are_kept():
    methods = ("SVM", "LDA", "ODM^L", "ODM")
    cells = [earlier_of(m, mean=0.8 + 0.01 * k) for k, m in enumerate(methods)]
    ranks = {("", m, "mean_rank"): Score(3.5 - 0.5 * k, np.nan, 0) for k, m in enumerate(methods)}
    earlier = {place: score for each in (*cells, ranks) for place, score in each.items()}
    texts = [block.text for block in of_kind(shown("odm/table2", frame(), earlier=earlier), Text)]
    assert any("ODM 2.00, ODM^L 2.50, LDA 3.00, SVM 3.50." in text for text in texts)
