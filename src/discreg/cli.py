"""The ``discreg`` command. Nothing heavy is imported before a job needs it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from discreg import __version__
from discreg.studies.datasets import BUNDLED

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with the given arguments, or with those of the process."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.job is None:
        parser.print_help()
        return 0
    from discreg.studies import demo

    print(demo.run(arguments.dataset))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="discreg", description="Discriminative regression classifiers for scikit-learn."
    )
    parser.add_argument("--version", action="version", version=f"discreg {__version__}")
    jobs = parser.add_subparsers(dest="job", metavar="job")
    about = "compare the models with RidgeClassifier, LinearSVC and LogisticRegression"
    demo = jobs.add_parser(
        "demo",
        help=about,
        description=f"{about[0].upper()}{about[1:]} by repeated cross-validation.",
    )
    demo.add_argument(
        "--dataset",
        choices=BUNDLED,
        default=BUNDLED[0],
        help="a data set that comes with scikit-learn (default: %(default)s)",
    )
    return parser
