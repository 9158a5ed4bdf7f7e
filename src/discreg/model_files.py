"""Saving and loading of fitted models without pickle."""

from __future__ import annotations

import json
import os
import pkgutil
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from io import BytesIO
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO

from discreg import __version__
from discreg.base.errors import InputError

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

__all__ = ["load_model", "save_model"]

FORMAT = 1
METADATA = "discreg.json"  # added to the zip file of skops
SCHEMA = "schema.json"  # the file in which skops lists types
ONE_GB = 2**30
PARSED = 30  # memory of parsed JSON, in multiples of the text
# Packages whose classes a model file may contain; the comparison tool is not one of them.
LIBRARY = (
    "auto",
    "base",
    "blocks",
    "linalg",
    "lowrank",
    "margin",
    "representation",
    "retargeted",
    "tables",
)
OUR_MODULE = re.compile(rf"discreg\.({'|'.join(LIBRARY)})(\.\w+)+")
# Classes of earlier files whose values nothing reads any more; None takes their place.
GONE = ("discreg.base.full_sets.TrainingLabels",)
# Private types inside fitted scikit-learn estimators. Their construction only stores values.
WITHOUT_PUBLIC_NAME = (
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.compose._column_transformer._RemainderColsList",  # of scikit-learn 1.6
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.metrics._scorer._CurveScorer",
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.metrics._scorer._Scorer",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.tree._tree.Tree",
    "sklearn.utils._metadata_requests.MetadataRequest",
    "sklearn.utils._metadata_requests.MethodMetadataRequest",
)


def save_model(model: BaseEstimator, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file that `load_model` reads.

    Parameters
    ----------
    model : estimator
        A fitted estimator or pipeline of discreg and scikit-learn. It may contain arrays and ufuncs
        of NumPy and SciPy and the named scorers of scikit-learn, but no other functions and no
        estimators of other packages.
    path : str or path
        The file, by convention with the suffix ``.skops``. It is replaced atomically.

    Raises
    ------
    InputError
        If the model is not an estimator, or contains a type that `load_model` does not accept.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from discreg import LSRClassifier, save_model
    >>> from sklearn.datasets import load_iris
    >>> model = LSRClassifier().fit(*load_iris(return_X_y=True))
    >>> with TemporaryDirectory() as folder:
    ...     save_model(model, Path(folder) / "iris.skops")
    ...     (Path(folder) / "iris.skops").stat().st_size > 1000
    True
    """
    from sklearn.base import BaseEstimator
    from sklearn.utils.validation import check_is_fitted

    io = _skops_io()
    if not isinstance(model, BaseEstimator):
        found = f"class {model.__name__}" if isinstance(model, type) else type(model).__name__
        raise InputError(f"save_model takes a fitted estimator or pipeline, not {found}.")
    if hasattr(model, "fit"):
        check_is_fitted(model)
    path = Path(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        try:
            io.dump(model, draft)
            types = io.get_untrusted_types(file=draft)
        except OSError:
            raise
        except Exception as error:
            name = type(model).__name__
            raise InputError(f"{name} cannot be written to a file: {error}") from error
        if refused := _refused_types(types):
            raise InputError(f"{_cannot_hold(path, refused)}{_advice(model)}")
        with zipfile.ZipFile(draft, "a") as file:
            file.writestr(METADATA, json.dumps({"format": FORMAT, "discreg": __version__}))
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def load_model(path: str | os.PathLike[str], *, max_bytes: int | None = None) -> BaseEstimator:
    """Read a model written by `save_model` or ``discreg compare``.

    Loading executes no code from the file. The file may contain numbers, strings, arrays, and
    instances of estimators of discreg and scikit-learn and of the classes that they consist of. Any
    other type raises an error, as does every function except the ufuncs of NumPy and SciPy and the
    score functions of scikit-learn's named scorers. A manipulated file can still contain a model
    that predicts nonsense or crashes the process.

    Classes of discreg that have moved to another module since the file was written are found by
    name. Parameters that did not exist then are set to their defaults, with a warning.

    Parameters
    ----------
    path : str or path
        The file.
    max_bytes : int, optional
        Largest size of the contents in memory, because a small file can contain compressed data
        of any size. The default is 1 GB (2**30 bytes), or twice the size of the file if that is
        more.

    Returns
    -------
    estimator
        The saved model.

    Raises
    ------
    InputError
        If the file is not a model file, has a format that this release does not support,
        contains types that are not trusted, or contains more than `max_bytes`.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from discreg import LSRClassifier, load_model, save_model
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> with TemporaryDirectory() as folder:
    ...     save_model(LSRClassifier().fit(X, y), Path(folder) / "iris.skops")
    ...     model = load_model(Path(folder) / "iris.skops")
    >>> model.predict(X[:2])
    array([0, 0])
    """
    io = _skops_io()
    path = Path(path)
    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    if max_bytes is None:
        max_bytes = max(ONE_GB, 2 * path.stat().st_size)
    try:
        members = _Reader(path, max_bytes).members()
        writer = _checked_writer(path, members)
        content = _stored(members)
        types = io.get_untrusted_types(data=content)
        if refused := _refused_types(types):
            is_ours = any(name.startswith("discreg.") for name in refused)
            raise InputError(
                _cannot_hold(path, refused) + (_other_release(writer) if is_ours else "")
            )
        return io.loads(content, trusted=types)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{path} is not a model file of discreg ({error}).") from error


def _skops_io() -> ModuleType:
    try:
        return import_module("skops.io")
    except ImportError as error:
        raise InputError("Model files need skops: pip install 'discreg[compare]'.") from error


class _Reader:
    """Reader of the members of a zip file that keeps to a limit of memory."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path, self._max_bytes, self._size = path, max_bytes, 0

    def members(self) -> dict[str, bytes]:
        """Read all members; in the schema, classes of discreg get their present modules."""
        members = self._unpacked(self._path)
        for name, content in members.items():
            # Sparse matrices are zip files inside the file. There is no deeper level.
            if content.startswith(b"PK") and zipfile.is_zipfile(BytesIO(content)):
                members[name] = _stored(self._unpacked(BytesIO(content)))
        if SCHEMA in members:
            members[SCHEMA] = self._present_schema(members)
        return members

    def _unpacked(self, archive: Path | BinaryIO) -> dict[str, bytes]:
        with zipfile.ZipFile(archive) as file:
            infos = {info.filename: info for info in file.infolist()}
            self._add(
                sum(
                    info.file_size * (PARSED if name in (METADATA, SCHEMA) else 1)
                    for name, info in infos.items()
                )
            )
            return {name: self._content(file, info) for name, info in infos.items()}

    def _content(self, file: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise InputError(
                f"{self._path} contains {info.filename} in a compression that model files do not "
                "use. Save the model again with discreg.save_model."
            )
        with file.open(info) as member:
            # Without its argument, `read` would decompress up to 2 GB before it compares the size
            # with the stated one.
            return member.read(info.file_size)

    def _present_schema(self, members: dict[str, bytes]) -> bytes:
        arrays = set()

        def with_present_module(node: dict[str, Any]) -> dict[str, Any]:
            if "file" in node:  # skops reads a file once for each identifier
                arrays.add((node["file"], node.get("__id__") or object()))
            return _with_present_module(node)

        schema = json.loads(members[SCHEMA], object_hook=with_present_module)
        times = Counter(name for name, _ in arrays)
        self._add(sum((times[name] - 1) * len(members[name]) for name in times.keys() & members))
        return json.dumps(schema).encode()

    def _add(self, n_bytes: int) -> None:
        self._size += n_bytes
        if self._size > self._max_bytes:
            raise InputError(
                f"The contents of {self._path} take {self._size:,} bytes of memory, but the limit "
                f"is {self._max_bytes:,} bytes. If you trust the file, raise the limit with "
                f"load_model(..., max_bytes={self._size}) or discreg predict --max-bytes "
                f"{self._size}."
            )


def _stored(members: dict[str, bytes]) -> bytes:
    """Move members to a zip file without compression; each is in memory only once."""
    copy = BytesIO()
    with zipfile.ZipFile(copy, "w") as file:
        for name in list(members):
            file.writestr(name, members.pop(name))
    return copy.getvalue()


def _checked_writer(path: Path, members: dict[str, bytes]) -> str:
    """Check the format of the file and return the release of discreg that wrote it."""
    if METADATA not in members:
        raise InputError(
            f"{path} is not a model file of discreg: it does not contain {METADATA}. "
            "If you trust the file, read it with skops.io.load."
        )
    metadata = json.loads(members[METADATA])
    writer = str(metadata["discreg"])
    if metadata["format"] != FORMAT:
        raise InputError(
            f"{path} has format {metadata['format']}, but discreg {__version__} reads format "
            f"{FORMAT}.{_other_release(writer)}"
        )
    return writer


def _other_release(writer: str) -> str:
    return (
        f" The file was written by discreg {writer}: install that version "
        f"(pip install 'discreg=={writer}'), or fit and save the model again."
    )


def _with_present_module(node: dict[str, Any]) -> dict[str, Any]:
    module, name = node.get("__module__"), node.get("__class__")
    if f"{module}.{name}" in GONE:
        return {
            "__class__": "str",
            "__module__": "builtins",
            "__loader__": "JsonNode",
            "content": "null",
            "is_json": True,
        }
    is_ours = isinstance(module, str) and module.startswith("discreg.")
    if is_ours and _class_called(f"{module}.{name}") is None and name in _library_classes():
        return node | {"__module__": _library_classes()[name].__module__}
    return node


@cache
def _library_classes() -> dict[str, type]:
    """Collect the classes of discreg's library by name; each name occurs once."""
    classes: dict[str, type] = {}
    for package in LIBRARY:
        prefix = f"discreg.{package}"
        for found in pkgutil.walk_packages(import_module(prefix).__path__, f"{prefix}."):
            with suppress(ImportError):  # an optional dependency may be missing
                module = import_module(found.name)
                classes |= {
                    name: value
                    for name, value in vars(module).items()
                    if isinstance(value, type) and value.__module__ == found.name
                }
    return classes


def _cannot_hold(path: Path, refused: Sequence[str]) -> str:
    return f"{path} contains types that are not trusted: {', '.join(refused)}."


def _advice(model: Any) -> str:
    """Write advice on parameters that are functions."""
    functions = [
        name
        for name, value in model.get_params().items()
        if callable(value) and not isinstance(value, type) and not hasattr(value, "get_params")
    ]
    if not functions:
        return ""
    kernel = (
        "; fit with the name of a kernel, or with kernel='precomputed' and matrices of your own "
        "kernel"
        if any(name.split("__")[-1] == "kernel" for name in functions)
        else ""
    )
    return f" Model files cannot contain functions, such as the parameter {functions[0]}{kernel}."


def _refused_types(names: Sequence[str]) -> list[str]:
    return [name for name in names if not _is_trusted(name)]


def _is_trusted(name: str) -> bool:
    """Return whether a file may contain instances of the named type.

    A file can construct a trusted class with any arguments. Therefore only classes whose
    construction stores values and does nothing else are trusted: estimators and data classes.
    Functions and methods are not trusted, because some of them execute their arguments. The
    exceptions are the score functions of scikit-learn's named scorers, which only compute with
    arrays.
    """
    import numpy as np
    from scipy import sparse
    from sklearn import metrics, model_selection, neighbors
    from sklearn.base import BaseEstimator
    from sklearn.gaussian_process.kernels import Kernel
    from sklearn.utils import Bunch

    if name in _score_functions():
        return True
    cls = _class_called(name)
    if cls is None:
        return False
    match name.partition(".")[0]:
        case "discreg":
            is_library = OUR_MODULE.fullmatch(cls.__module__) is not None
            return is_library and (issubclass(cls, BaseEstimator) or _holds_data(cls))
        case "sklearn":
            bases = (
                BaseEstimator,
                Bunch,
                Kernel,
                metrics.DistanceMetric,
                model_selection.BaseCrossValidator,
                model_selection.BaseShuffleSplit,
                model_selection.RepeatedKFold,
                model_selection.RepeatedStratifiedKFold,
                neighbors.BallTree,
                neighbors.KDTree,
            )
            return issubclass(cls, bases) or name in WITHOUT_PUBLIC_NAME
        case "scipy":
            return issubclass(cls, (sparse.spmatrix, sparse.sparray))
        case _:
            return cls is np.dtype


@cache
def _score_functions() -> frozenset[str]:
    """Return the names of the public functions of scikit-learn's named scorers."""
    from sklearn import metrics

    scorers = map(metrics.get_scorer, metrics.get_scorer_names())
    values = [value for scorer in scorers for value in vars(scorer).values()]
    return frozenset(
        f"{value.__module__}.{value.__name__}"
        for value in values
        if isinstance(value, FunctionType) and vars(metrics).get(value.__name__) is value
    )


def _class_called(name: str) -> type | None:
    """Find the class that is defined under this name; only modules of discreg are imported."""
    module, _, attribute = name.rpartition(".")
    if OUR_MODULE.fullmatch(module):
        with suppress(ImportError):
            import_module(module)
    found = vars(sys.modules[module]).get(attribute) if module in sys.modules else None
    if isinstance(found, type) and f"{found.__module__}.{found.__qualname__}" == name:
        return found
    return None


def _holds_data(cls: type) -> bool:
    """Return whether a class is a dataclass or a NamedTuple that only stores its values."""
    is_dataclass = "__dataclass_fields__" in vars(cls) and not hasattr(cls, "__post_init__")
    return is_dataclass or (issubclass(cls, tuple) and "_fields" in vars(cls))
