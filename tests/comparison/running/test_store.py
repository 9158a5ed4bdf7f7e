"""A store keeps whole fits, and only those of one experiment."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest

from discreg.base.errors import InputError
from discreg.comparison.running.store import Key, Outcome, Store

KEY = Key("iris", "ReLSR", 0, 3)
SETTINGS = {"seed": "0", "target": "species"}


def test_what_was_stored_is_there_when_it_is_opened_again(tmp_path):
    with Store(tmp_path / "results.sqlite", SETTINGS) as store:
        outcome = Outcome({"accuracy": 0.1 + 0.2}, {"confusion": np.eye(3)}, ("slow", "steep"))
        store.finish(store.begin(KEY), KEY, outcome)
    with Store(tmp_path / "results.sqlite", SETTINGS) as store:
        assert store.results().to_numpy().tolist() == [[*KEY, "accuracy", 0.1 + 0.2]]
        np.testing.assert_array_equal(store.array(KEY, "confusion"), np.eye(3))
        assert store.array(KEY, "margins") is None
        assert store.ended() == {KEY}
        assert store.warnings() == {KEY: ["slow", "steep"]}
        assert store.failures() == {}


def test_a_number_that_could_not_be_computed_comes_back_as_nan(tmp_path):
    with Store(tmp_path / "results.sqlite", SETTINGS) as store:
        store.finish(store.begin(KEY), KEY, Outcome({"log_loss": np.nan}))
        assert np.isnan(store.results()["value"][0])


def test_an_attempt_that_did_not_end_is_to_be_made_again(tmp_path):
    with Store(tmp_path / "results.sqlite", SETTINGS) as store:
        store.begin(KEY)
    with Store(tmp_path / "results.sqlite", SETTINGS) as store:
        assert store.ended() == set()
        assert store.attempts() == [(KEY, False)]


def test_a_model_that_failed_is_not_tried_again_but_a_lost_fit_is(tmp_path):
    lost = KEY._replace(fold=4)
    with Store(tmp_path / "results.sqlite", SETTINGS) as store:
        store.fail(store.begin(KEY), "ValueError: singular")
        store.fail(store.begin(lost), "took too long", retry=True)
        assert store.ended() == {KEY}
        assert store.failures() == {KEY: "ValueError: singular", lost: "took too long"}
        store.finish(store.begin(lost), lost, Outcome({"accuracy": 1.0}))
        assert store.failures() == {KEY: "ValueError: singular"}


def test_a_fit_that_cannot_be_stored_wholly_is_not_stored(tmp_path):
    with Store(tmp_path / "results.sqlite", SETTINGS) as store:
        attempt = store.begin(KEY)
        unpackable = Outcome({"accuracy": 1.0}, {"objects": np.array([object()])})
        with pytest.raises(ValueError, match="pickle"):
            store.finish(attempt, KEY, unpackable)
        store.finish(attempt, KEY, Outcome({"accuracy": 1.0}))
        with pytest.raises(Exception, match="UNIQUE"):
            store.finish(store.begin(KEY), KEY, Outcome({"f1": 0.5, "accuracy": 0.0}))
        assert store.results().to_numpy().tolist() == [[*KEY, "accuracy", 1.0]]


def test_results_of_another_experiment_are_refused_by_what_differs(tmp_path):
    Store(tmp_path / "results.sqlite", SETTINGS).close()
    with pytest.raises(
        InputError, match=r"target was species and is now height.*another directory for the output"
    ):
        Store(tmp_path / "results.sqlite", {**SETTINGS, "target": "height"})


def test_a_second_run_cannot_write_beside_the_first(tmp_path):
    with (
        Store(tmp_path / "results.sqlite", SETTINGS),
        pytest.raises(InputError, match="in use by another run"),
    ):
        Store(tmp_path / "results.sqlite", SETTINGS)
    Store(tmp_path / "results.sqlite", SETTINGS).close()


def test_a_file_that_is_no_store_is_named(tmp_path):
    path = tmp_path / "results.sqlite"
    path.write_text("model,accuracy\n" * 100)
    with pytest.raises(InputError, match=r"results\.sqlite cannot be used"):
        Store(path, SETTINGS)


ALTERATIONS = {
    "a table is gone": "DROP TABLE arrays; CREATE TABLE arrays (value BLOB)",
    "a column is gone": "ALTER TABLE attempts DROP COLUMN ended",
    "a column is new": "ALTER TABLE results ADD COLUMN comment TEXT",
    "a number is text": "UPDATE results SET value = 'high'",
    "an array is text": "UPDATE arrays SET value = 'ones'",
    "an array is cut": "UPDATE arrays SET value = substr(value, 1, 90)",
    "a result is gone": "DELETE FROM results; DELETE FROM arrays",
    "a result is new": "UPDATE results SET model = 'Oracle'",
    "an attempt is gone": "DELETE FROM attempts",
}


@pytest.mark.parametrize("case", ALTERATIONS)
def test_a_store_that_was_changed_is_named_with_what_to_do(tmp_path, case):
    path = tmp_path / "results.sqlite"
    with Store(path, SETTINGS) as store:
        outcome = Outcome({"accuracy": 1.0}, {"confusion": np.eye(3)}, ("slow",))
        store.finish(store.begin(KEY), KEY, outcome)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(ALTERATIONS[case])
    told = r"results\.sqlite cannot be used, .* damaged or was changed .* Move that file away"
    with pytest.raises(InputError, match=told):
        read_all(path)


def read_all(path):
    with Store(path, SETTINGS) as store:
        store.ended()
        store.failures()
        store.warnings()
        store.results()
        store.array(KEY, "confusion")


def test_a_damaged_store_is_named_with_what_to_do(tmp_path):
    path = tmp_path / "results.sqlite"
    with Store(path, SETTINGS) as store:
        store.finish(store.begin(KEY), KEY, Outcome({}, {"noise": np.arange(5000)}))
    content = bytearray(path.read_bytes())
    content[-16384:] = bytes(16384)  # a part of the array
    path.write_bytes(content)
    with pytest.raises(InputError, match="damaged or was changed"):
        Store(path, SETTINGS)


def test_a_damaged_lock_is_named(tmp_path):
    (tmp_path / "results.sqlite.lock").write_text("mine" * 1000)
    with pytest.raises(InputError, match=r"results\.sqlite\.lock cannot be used"):
        Store(tmp_path / "results.sqlite", SETTINGS)


def test_a_full_disk_is_no_damage_and_keeps_what_is_stored(tmp_path):
    path = tmp_path / "results.sqlite"
    large = {"array": np.arange(10_000)}
    later = KEY._replace(fold=4)
    with Store(path, SETTINGS) as store:
        store.finish(store.begin(KEY), KEY, Outcome({"accuracy": 1.0}))
        attempt = store.begin(later)
        (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
        store._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(OSError, match=r"cannot be written .*full.* Is the disk full"):
            store.finish(attempt, later, Outcome({"accuracy": 1.0}, large))
    with Store(path, SETTINGS) as store:
        assert store.ended() == {KEY}
