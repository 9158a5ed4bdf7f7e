"""The fits of the papers' studies: which there are, and what one of them gives."""

import pickle

import pytest

from discreg.base.errors import InputError
from discreg.comparison.running.store import Key
from discreg_reproduction import experiment, registry
from discreg_reproduction.experiment import Reproduction, chosen_studies
from discreg_reproduction.papers import PAPERS, studies
from discreg_reproduction.registry import DatasetUnavailable

# Every table and figure that is declared.
NAMES = {
    "drm": ["table2", "table4", "table7", "fig2", "fig3", "fig4"],
    "relsr": ["table1", "fig2", "fig3", "fig4"],
    "grelsr": ["fig1", "fig2", "fig3"],
    "lowrank": ["fig1", "fig2", "table2"],
    "odm": ["table2", "table3", "table4", "fig1", "fig2"],
}
ALL = [f"{paper}/{table}" for paper, tables in NAMES.items() for table in tables]


@pytest.fixture
def without_data(monkeypatch):
    """A machine on which only iris is available."""

    def load(name, data_dir=None):
        if name != "iris":
            raise DatasetUnavailable(f"{name} is nowhere")
        return registry.load(name)

    monkeypatch.setattr(experiment, "load", load)
    experiment._why_unavailable.cache_clear()
    yield
    experiment._why_unavailable.cache_clear()


def test_every_table_and_figure_of_the_five_papers_is_there():
    assert sorted(studies()) == sorted(ALL)
    assert set(NAMES) == set(PAPERS)


@pytest.mark.parametrize(("name", "expected"), [("relsr/fig4", 1), ("relsr", 4), (None, 21)])
def test_studies_are_chosen_by_paper_or_name(name, expected):
    assert len(chosen_studies(name)) == expected


def test_an_unknown_study_is_refused_with_the_nearest():
    with pytest.raises(InputError, match=r"no study 'drm/tabel7'. Did you mean drm/table7\?"):
        chosen_studies("drm/tabel7")


def test_a_quick_look_makes_a_part_of_the_fits_of_the_full_run():
    for name in ALL:
        full = set(Reproduction([name]).keys_of(studies()[name]))
        quick = set(Reproduction([name], quick=True).keys_of(studies()[name]))
        assert quick <= full


def test_studies_that_show_the_same_fits_share_them():
    experiment = Reproduction(["relsr/fig2", "relsr/fig3"])
    bars, ranks = (experiment.keys_of(studies()[name]) for name in experiment.names)
    assert bars == ranks
    assert len(experiment.keys()) == len(bars)


@pytest.mark.usefixtures("without_data")
def test_what_is_missing_is_named_and_the_others_go_on():
    experiment = Reproduction(["grelsr/fig3"])
    assert "Vowel" in experiment.missing["grelsr/fig3"]
    assert "is nowhere" in experiment.missing["grelsr/fig3"]["Vowel"]
    keys = experiment.keys()
    assert {key.dataset for key in keys} == {"grelsr/fig3/Iris"}


def test_repeats_come_one_after_another_and_every_fit_once():
    keys = Reproduction(["relsr/table1", "relsr/fig2"]).keys()
    assert [key.repeat for key in keys] == sorted(key.repeat for key in keys)
    assert len(keys) == len(set(keys))


def test_a_fit_is_the_method_of_the_study_on_the_split_of_its_key():
    experiment = pickle.loads(pickle.dumps(Reproduction(["relsr/fig2"])))
    key = Key("relsr/fig2/iris", "LSR", 1, 0)
    study = studies()["relsr/fig2"]
    data = study.prepare(registry.load("iris"))
    expected = study.methods["LSR"].run(*study.parts(data, 1, 0), seed=1)
    found = experiment.run(key)
    for metric, value in expected.values.items():
        if "seconds" not in metric:
            assert found.values[metric] == value
