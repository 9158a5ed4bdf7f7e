"""The installed wheel works without extras: .ci/run and the workflow "wheel" run this."""

import subprocess
import sysconfig
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from sklearn.datasets import load_iris

import discreg

extras = [name for name in ("matplotlib", "pandas", "cvxpy", "pytest") if find_spec(name)]
assert not extras, f"installed without extras, yet here are {extras}"
assert files("discreg").joinpath("py.typed").is_file(), "py.typed is not in the wheel"
for name in discreg.__all__:
    getattr(discreg, name)

X, y = load_iris(return_X_y=True)
accuracy = discreg.ReLSRClassifier().fit(X, y).score(X, y)
assert accuracy > 0.8, accuracy

try:
    discreg.compare(X, y)
    advice = ""
except ImportError as error:
    advice = str(error)
assert "pip install 'discreg[compare]'" in advice, "discreg.compare does not name its extra"

command = Path(sysconfig.get_path("scripts")) / "discreg"
help_page = subprocess.run([command, "--help"], capture_output=True, text=True, check=False)
assert help_page.returncode != 0, "discreg ran without its extra"
assert "pip install 'discreg[compare]'" in help_page.stdout + help_page.stderr, help_page
print(f"discreg {discreg.__version__} from the wheel: {accuracy:.3f} on iris")
