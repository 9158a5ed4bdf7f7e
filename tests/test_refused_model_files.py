"""Strange or hostile model files are refused, within a limit of memory."""

import json
import re
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from contextlib import contextmanager
from functools import partial

import numpy as np
import pandas as pd
import pytest
from rewritten_files import rewritten
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.feature_selection import SelectKBest
from sklearn.metrics import accuracy_score, check_scoring, fbeta_score, make_scorer
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from skops import io

from discreg import LSRClassifier, load_model, save_model
from discreg.base.errors import InputError
from discreg.comparison.running.nested_cv import NestedCrossValidation
from discreg.tables.table import as_table

X, Y = (array[::6] for array in load_iris(return_X_y=True))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.skops"


def write_hostile(model, path):
    """A file of anything, with the metadata of a model file."""
    io.dump(model, path)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("discreg.json", json.dumps({"format": 1, "discreg": "0.1.0"}))


def with_part(part):
    """A fitted model that holds something as an attribute."""
    model = LSRClassifier().fit(X, Y)
    model.part_ = part
    return model


class Foreign(ClassifierMixin, BaseEstimator):
    """An estimator of another package than discreg and scikit-learn."""


@pytest.mark.parametrize(
    ("part", "named"),
    [
        (Foreign(), "test_refused_model_files.Foreign"),
        (FunctionTransformer(pd.DataFrame.abs), "pandas.*abs"),
        (FunctionTransformer(np.testing.measure), r"numpy\.testing.*measure"),  # executes a text
        (rbf_kernel, r"sklearn\.metrics\.pairwise\.rbf_kernel"),
        (fbeta_score, r"sklearn\.metrics.*\.fbeta_score"),  # public, but of no named scorer
        (make_scorer(fbeta_score, beta=2), r"sklearn\.metrics.*\.fbeta_score"),
        (make_scorer, r"sklearn\.metrics.*\.make_scorer"),
        (check_scoring, r"sklearn\.metrics.*\.check_scoring"),
        (partial(accuracy_score, normalize=False), r"functools\.partial"),
        (make_scorer(accuracy_score).__call__, r"_Scorer\.__call__"),
        (SelectKBest(), r"sklearn.*\.f_classif"),
        (partial(rbf_kernel, gamma=1.0), r"functools\.partial"),
        (StandardScaler().fit, r"StandardScaler\.fit"),
        (load_model, r"discreg\.model_files\.load_model"),
        (as_table, r"discreg\.tables\.table\.as_table"),
        (NestedCrossValidation, r"discreg\.comparison\.running\.nested_cv\.NestedCrossValidation"),
        (subprocess.Popen, r"subprocess\.Popen"),
        (eval, r"builtins\.eval"),
    ],
    ids=lambda value: value.replace("\\", "") if isinstance(value, str) else "",
)
def test_what_is_no_estimator_of_ours_or_of_scikit_learn_is_refused_by_name(path, part, named):
    with pytest.raises(InputError, match=f"not trusted: .*{named}"):
        save_model(with_part(part), path)
    assert not path.exists()
    write_hostile(with_part(part), path)
    with pytest.raises(InputError, match=f"not trusted: .*{named}"):
        load_model(path)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("discreg.tables.table", "as_table"),
        ("discreg.comparison.running.store", "Store"),
        ("discreg.cli", "main"),
        ("discreg", "LSRClassifier"),
        ("discreg.tables.table", "Path"),
        ("discreg.retargeted._lsr", "LSRClassifier.fit"),
        ("discreg.no_such_module", "Anything"),
        ("sklearn.utils._mocking", "MockDataFrame"),
        ("sklearn.no_such_module", "Anything"),
        ("sklearn.metrics", "accuracy_score"),  # files name functions by where they are defined
        ("sklearn.metrics._scorer", "get_scorer"),
        ("sklearn.calibration", "calibration_curve"),
        ("sklearn.gaussian_process.kernels", "clone"),
        ("os", "system"),
    ],
)
@pytest.mark.parametrize("loader", ["ObjectNode", "ConstructorFromReduceNode", "FunctionNode"])
def test_a_file_cannot_name_a_type_that_is_not_an_estimator(path, module, name, loader):
    write_hostile(with_part(StandardScaler()), path)
    rewritten(
        path,
        lambda schema: (
            schema.replace('"__class__": "StandardScaler",\n', f'"__class__": "{name}",\n')
            .replace('"sklearn.preprocessing._data"', f'"{module}"')
            .replace(
                f'"{module}",\n          "__loader__": "ObjectNode"',
                f'"{module}",\n          "__loader__": "{loader}"',
            )
        ),
    )
    with pytest.raises(InputError, match=f"not trusted: {module}.{name}"):
        load_model(path)


def test_a_file_does_not_import_the_modules_it_names(path):
    write_hostile(with_part(StandardScaler()), path)
    rewritten(path, lambda schema: schema.replace("sklearn.preprocessing._data", "antigravity"))
    with pytest.raises(InputError, match=r"not trusted: antigravity\.StandardScaler"):
        load_model(path)
    assert "antigravity" not in sys.modules


def test_a_format_from_the_future_is_refused_with_advice(path):
    io.dump(LSRClassifier().fit(X, Y), path)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("discreg.json", json.dumps({"format": 2, "discreg": "7.1.0", "more": 1}))
    with pytest.raises(InputError, match=r"format 2, .* by discreg 7\.1\.0: .*discreg==7\.1\.0"):
        load_model(path)


@pytest.mark.parametrize("name", ["GoneClassifier", "NestedCrossValidation", "as_table"])
def test_what_discreg_no_longer_has_is_refused_with_advice(path, name):
    write_hostile(LSRClassifier().fit(X, Y), path)
    rewritten(
        path,
        lambda schema: schema.replace('"LSRClassifier"', f'"{name}"').replace(
            '"discreg.retargeted._lsr"', '"discreg.old_place"'
        ),
    )
    advice = r"written by discreg 0\.1\.0: install that version .*, or fit and save"
    with pytest.raises(InputError, match=rf"not trusted: discreg\.old_place\.{name}\. .*{advice}"):
        load_model(path)


def test_a_file_without_metadata_is_refused(path):
    io.dump(LSRClassifier().fit(X, Y), path)
    with pytest.raises(InputError, match=r"does not contain discreg\.json.*skops\.io\.load"):
        load_model(path)


@pytest.mark.parametrize("metadata", ["", "[]", "{}", '{"format": 1}', '{"format": 2}'])
def test_a_file_with_broken_metadata_is_refused(path, metadata):
    io.dump(LSRClassifier().fit(X, Y), path)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("discreg.json", metadata)
    with pytest.raises(InputError, match="not a model file of discreg"):
        load_model(path)


def test_what_is_no_model_file_is_refused(path):
    with pytest.raises(InputError, match="There is no file"):
        load_model(path)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="not a model file of discreg"):
        load_model(path)


def test_a_cut_file_is_refused(path):
    save_model(LSRClassifier().fit(X, Y), path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(InputError, match="not a model file of discreg"):
        load_model(path)


# Small files with large contents

LARGE = 2**22  # numbers of 8 bytes
MB = 2**20


def compressed(path, method=zipfile.ZIP_DEFLATED):
    """The same file, compressed."""
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in members.items():
            file.writestr(name, content)


def with_stated_size(path, size):
    """The same file with another size of its largest member in the directory of the file."""
    with zipfile.ZipFile(path) as file:
        largest = max(file.infolist(), key=lambda info: info.file_size)
    content = bytearray(path.read_bytes())
    place = content.rindex(b"PK\x01\x02", 0, content.rindex(largest.filename.encode()))
    assert struct.unpack_from("<L", content, place + 24) == (largest.file_size,)
    struct.pack_into("<L", content, place + 24, size)
    path.write_bytes(content)


@contextmanager
def memory_below(n_bytes):
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < n_bytes
    finally:
        tracemalloc.stop()


def test_contents_larger_than_the_limit_are_refused_before_they_are_read(path):
    write_hostile(with_part(np.zeros(LARGE)), path)
    compressed(path)
    assert path.stat().st_size < MB
    told = (
        r"model\.skops take 3\d,\d{3},\d{3} bytes .* limit is 16,777,216 bytes.* max_bytes=3\d{7}\)"
    )
    with memory_below(4 * MB), pytest.raises(InputError, match=told):
        load_model(path, max_bytes=16 * MB)
    assert load_model(path, max_bytes=64 * MB).part_.shape == (LARGE,)


def test_the_limit_is_one_gigabyte_unless_it_is_given(path):
    write_hostile(with_part(np.zeros(LARGE)), path)
    compressed(path)
    with_stated_size(path, 2**30)
    with memory_below(4 * MB), pytest.raises(InputError, match="limit is 1,073,741,824 bytes"):
        load_model(path)


def test_a_member_that_is_larger_than_it_states_is_refused_within_the_limit(path):
    write_hostile(with_part(np.zeros(LARGE)), path)
    compressed(path)
    with_stated_size(path, 200)
    with memory_below(4 * MB), pytest.raises(InputError, match="not a model file of discreg"):
        load_model(path, max_bytes=16 * MB)


def test_a_compressed_matrix_inside_the_file_counts(path):
    write_hostile(with_part(sparse.csr_array((LARGE, 1))), path)
    assert path.stat().st_size < MB
    with memory_below(4 * MB), pytest.raises(InputError, match="limit is 8,388,608 bytes"):
        load_model(path, max_bytes=8 * MB)
    assert load_model(path).part_.shape == (LARGE, 1)


def test_an_array_that_is_read_several_times_counts_each_time(path):
    write_hostile(with_part([np.zeros(MB), *(np.zeros(place) for place in range(30))]), path)
    with zipfile.ZipFile(path) as file:
        largest = max(file.infolist(), key=lambda info: info.file_size).filename
    rewritten(path, lambda schema: re.sub(r'"file": "[^"]+"', f'"file": "{largest}"', schema))
    with memory_below(40 * MB), pytest.raises(InputError, match=r"take 3\d\d,"):
        load_model(path, max_bytes=100 * MB)


def test_an_array_that_two_attributes_share_counts_once(path):
    array = np.zeros(MB)
    save_model(with_part([array] * 30), path)
    with memory_below(80 * MB):
        read = load_model(path, max_bytes=16 * MB)
    assert all(each is read.part_[0] for each in read.part_)


@pytest.mark.parametrize("member", ["discreg.json", "schema.json"])
def test_text_that_takes_much_memory_when_it_is_read_is_refused(path, member):
    members = {"discreg.json": json.dumps({"format": 1, "discreg": "0.1.0"}), "schema.json": "{}"}
    members[member] = "[" + "[]," * MB + "[]]"
    with zipfile.ZipFile(path, "w") as file:
        for name, text in members.items():
            file.writestr(name, text)
    with memory_below(16 * MB), pytest.raises(InputError, match="limit is 67,108,864 bytes"):
        load_model(path, max_bytes=64 * MB)


def test_a_compression_whose_size_cannot_be_limited_is_refused(path):
    write_hostile(with_part(np.zeros(LARGE)), path)
    compressed(path, zipfile.ZIP_BZIP2)
    with pytest.raises(InputError, match=r"in a compression that .* Save the model again"):
        load_model(path)
