"""Run all benchmarks: ``python benchmarks/run.py [--out DIR] [NAME ...]``; one JSON file each.

Machines are shared and noisy: read ratios and medians, not single times. ``study.py`` is not among them: it
measures regret, and takes minutes (``make study``).
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

FOLDER = Path(__file__).parent


def main() -> None:
    names = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in ("run", "study"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("bench"), help="folder for the JSON files")
    parser.add_argument("names", nargs="*", help=f"which of {', '.join(names)}; all if none is named")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(names))
    if unknown:
        parser.error(f"no benchmark is called {unknown[0]!r}; there are {', '.join(names)}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    machine = {"python": platform.python_version(), "platform": platform.platform(), "processor": platform.processor()}
    machine |= {package: version(package) for package in ("tailwise", "numpy", "numba")}
    for name in arguments.names or names:
        begun = time.perf_counter()
        done = subprocess.run([sys.executable, FOLDER / f"{name}.py"], check=True, stdout=subprocess.PIPE, text=True)
        result = {"machine": machine, "result": json.loads(done.stdout)}
        target = arguments.out / f"{name}.json"
        target.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
        print(f"{name}: {time.perf_counter() - begun:.0f} s, written to {target}")
        print(json.dumps(result["result"], indent=1))


if __name__ == "__main__":
    main()
