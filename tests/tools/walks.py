"""Which source files a fit runs through: python -m tests.tools.walks."""

import sys
import warnings
from pathlib import Path

from sklearn.datasets import load_iris

import discreg

SOURCE = Path(discreg.__file__).parent
FITS = ("LSRClassifier", "ReLSRClassifier", "ODMClassifierCV")


def files_of(run):
    """The files of the package whose functions are called, in the order of their first calls."""
    found = {}

    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_name != "<module>" and str(SOURCE) in code.co_filename:
            found.setdefault(str(Path(code.co_filename).relative_to(SOURCE)), []).append(code)

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return {file: len(set(codes)) for file, codes in found.items()}


if __name__ == "__main__":
    X, y = load_iris(return_X_y=True)
    warnings.simplefilter("ignore")
    for name in FITS:
        model = getattr(discreg, name)().fit(X, y)  # loops are compiled and modules imported
        files = files_of(lambda model=model: model.fit(X, y))
        print(f"{name}().fit: {len(files)} files, {sum(files.values())} functions")
        for file, number in files.items():
            print(f"    {file} {number}")
