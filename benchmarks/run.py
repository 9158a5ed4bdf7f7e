"""Run the benchmarks and make one page of all ratios to peers, or check that none got worse.

    python benchmarks/run.py                  # all scripts, then the page
    python benchmarks/run.py drm margin       # some of them
    python benchmarks/run.py --page           # the page of the stored results only
    python benchmarks/run.py --check drm      # exit status 1 if a ratio is 1.5 times the stored one

The scripts store their ratios in ``results/*.json``. A check stores nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from _timing import KINDS, RESULTS

HERE = Path(__file__).parent
# The others compare accuracies, measure constants, or need another checkout.
SCRIPTS = (
    *("retargeted", "retargeted_kernels", "lowrank", "margin", "drm"),
    *("searches", "predictions", "growth", "streams"),
)
WORSE = 1.5
TITLES = {
    "fit": "Fits",
    "search": "Searches",
    "predict": "Predictions",
    "stream": "Memory maps, beside bare products of the same rows",
}

Ratios = dict[tuple[str, str, str], float]  # by kind, script and what is compared


def stored_ratios(folder: Path, names: Sequence[str] | None = None) -> Ratios:
    """Read the ratios of some scripts, or of all."""
    found: Ratios = {}
    for path in sorted(folder.glob("*.json")):
        if names is None or path.stem in names:
            for kind, ratios in json.loads(path.read_text()).get("ratios", {}).items():
                found |= {(kind, path.stem, what): ratio for what, ratio in ratios.items()}
    return found


def changes(old: Ratios, new: Ratios) -> tuple[list[str], list[str]]:
    """Describe the ratios that got worse, and those that were not measured again."""
    worse, missing = [], []
    for key, before in old.items():
        label = f"{key[0]}, {key[1]}: {key[2]}"
        if key not in new:
            missing.append(label)
        elif new[key] > WORSE * before:
            worse.append(f"{label}: {before:g} -> {new[key]:g}")
    return worse, missing


def run(names: Sequence[str], folder: Path) -> None:
    """Run scripts that store their results in a folder."""
    for name in names:
        print(f"== {name}", flush=True)
        environment = os.environ | {"DISCREG_RESULTS": str(folder)}
        subprocess.run([sys.executable, HERE / f"{name}.py"], env=environment, check=True)


def check(names: Sequence[str]) -> int:
    """Run scripts again and compare their ratios with the stored ones; return the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        run(names, Path(folder))
        worse, missing = changes(stored_ratios(RESULTS, names), stored_ratios(Path(folder)))
    for label in missing:
        print(f"not measured: {label}")
    for label in worse:
        print(f"worse: {label}")
    print(f"{len(worse)} ratios are more than {WORSE} times the stored ones.")
    return int(bool(worse))


def write_overview(folder: Path) -> None:
    """Write README.md and overview.svg from the stored ratios."""
    ratios = stored_ratios(folder)
    draw(ratios, folder / "overview.svg")
    lines = [
        "# Time of discreg relative to the fastest peer",
        "",
        "A ratio below 1 means that discreg is faster. Peers run in turns with it, in the same "
        "process. Models are fitted with probability=False, because their peers have no "
        "probabilities. Each page names its data, its peers and the machine.",
        "",
        "![Ratios of fits, searches, predictions and memory maps](overview.svg)",
    ]
    for kind in KINDS:
        of_kind = {key[1:]: ratio for key, ratio in ratios.items() if key[0] == kind}
        if of_kind:
            lines += [
                "",
                f"## {TITLES[kind]}",
                "",
                "| what | ratio | page |",
                "| --- | --- | --- |",
            ]
        for (name, what), ratio in of_kind.items():
            lines.append(f"| {what} | {ratio:g} | [{name}]({name}.md) |")
    stored = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    machines = {each["machine"] for each in stored if "ratios" in each}
    lines += ["", *sorted(machines)]
    (folder / "README.md").write_text("\n".join(lines) + "\n")


def draw(ratios: Ratios, path: Path) -> None:
    """Draw one line of dots per kind on a logarithmic scale."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 2.8), layout="constrained")
    axes = figure.subplots()
    for place, kind in enumerate(KINDS):
        of_kind = [ratio for key, ratio in ratios.items() if key[0] == kind]
        if of_kind:
            axes.plot(of_kind, [place] * len(of_kind), "o", alpha=0.4, color="tab:blue")
            axes.plot(median(of_kind), place, "|", color="black", markersize=22)
    axes.axvline(1.0, color="grey", linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(range(len(KINDS)), KINDS)
    axes.set_ylim(len(KINDS) - 0.5, -0.5)
    axes.set_xlabel("time / time of the fastest peer (bar: median; left of the line: faster)")
    with mpl.rc_context({"svg.hashsalt": "discreg"}):  # the same file from the same ratios
        figure.savefig(path, metadata={"Date": None})


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run the benchmarks.")
    parser.add_argument("names", nargs="*", help=f"scripts; default: {', '.join(SCRIPTS)}")
    parser.add_argument("--check", action="store_true", help="compare with the stored ratios")
    parser.add_argument("--page", action="store_true", help="only make the page")
    options = parser.parse_args(arguments)
    names = options.names or SCRIPTS
    if options.check:
        return check(names)
    if not options.page:
        run(names, RESULTS)
    write_overview(RESULTS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
