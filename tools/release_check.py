"""What must hold before a release: ``make release-check``; docs/releasing.md describes the steps.

Steps run in the order of `STEPS`; each is a function that raises `Failed`, or returns in a few words what it found.
All that is installed goes into ``.cache/release``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / ".cache" / "release"
DIST = ROOT / "dist"
VERSION_FILE = ROOT / "src" / "tailwise" / "__init__.py"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLACEHOLDER = re.compile(r"(?:OWNER|[A-Z]+-CONTACT|AUTHORS|DOI)-TO-BE-NAMED")
# The version where other tools read it: file, and what stands before and after it.
COPIES = (
    ("CITATION.cff", r"(?m)(^version: )(\S+)($)"),
    ("codemeta.json", r'("version": ")([^"]+)(")'),
    ("conda/recipe.yaml", r"(?m)(^  version: )(\S+)($)"),
)
PERSON = (
    "the name: whether 'tailwise' is free on the package index, an account, and the repository as trusted publisher",
    "accounts: the repository's owner and the contacts (placeholders below), the conda feedstock",
    "authors: in pyproject.toml, CITATION.cff, codemeta.json, paper/paper.md; the paper's disclosure section",
    "the DOI: an archive connected before the first tag",
    "systems: macOS, Windows and Python 3.14 are in the test workflow; their classifiers follow its first green run",
)
# What each extra is for, as a program that fails without it.
EXTRAS = {
    "gym": "import tailwise; tailwise.GymnasiumSimulator('CartPole-v1', horizon=5)",
    "arrow": "import tailwise; tailwise.load('grid-mdp.parquet')",
    "prism": "import stormpy",
    "rddl": "import pyRDDLGym, rddlrepository",
    "excel": "import openpyxl, pandas, tailwise",
    "pandas": "import pandas, tailwise",
    "yaml": "import yaml, tailwise",
    "bench": "import psutil, tailwise",
    "ray": "import ray, tailwise.scale",
    "report": "import plotly, matplotlib, tailwise; tailwise.make_planner("
    "tailwise.domains.make('grid-mdp'), 0.1).plan().report('page.html')",
    "explore": "import dash, tailwise.explore.server",
}


class Failed(Exception):
    """Raised when a step finds that something does not hold."""


class Skipped(Exception):
    """Raised when a step cannot be tried here."""


def version() -> str:
    """Return the version, from its one place."""
    return re.search(r'__version__ = "(.+)"', VERSION_FILE.read_text(encoding="utf-8"))[1]


def run(*command: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> str:
    """Run a command without the caller's Python path; its output, or `Failed` with the end of it."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MAKEFLAGS", "MAKELEVEL")}
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=clean | (env or {}), text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command))}\n{done.stdout[-3000:]}")
    return done.stdout


def tracked() -> list[str]:
    """Return the files of the repository, or of the sdist if this is one."""
    if (ROOT / ".git").exists():
        return run("git", "ls-files").split()
    left_out = {".venv", ".cache", "dist", "site", "__pycache__"}
    files = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
    return [str(path) for path in files if not left_out & set(path.parts)]


def placeholders() -> dict[str, list[str]]:
    """Return the placeholders that stand for what a person must name, each with its files."""
    found: dict[str, set[str]] = {}
    for name in tracked():
        if name.startswith(("tools/", "tests/", "docs/releasing.md")) or not (ROOT / name).is_file():
            continue
        for word in PLACEHOLDER.findall((ROOT / name).read_text(encoding="utf-8", errors="ignore")):
            found.setdefault(word, set()).add(name)
    return {word: sorted(files) for word, files in sorted(found.items())}


def write_version() -> None:
    """Copy the version to the files in which other tools read it."""
    for name, pattern in COPIES:
        path = ROOT / name
        path.write_text(re.sub(pattern, rf"\g<1>{version()}\g<3>", path.read_text(encoding="utf-8")), encoding="utf-8")


def metadata_faults() -> list[str]:
    """Return what is not so in the files that describe the package; no tool is needed."""
    faults = []
    for name, pattern in COPIES:
        said = re.search(pattern, (ROOT / name).read_text(encoding="utf-8"))
        if said is None or said[2] != version():
            faults.append(
                f"{name}: version {said and said[2]}, not {version()}: python tools/release_check.py --write-version"
            )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = {"python" + project["project"]["requires-python"], *project["project"]["dependencies"]}
    recipe = (ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    asked = re.search(r"\n  run:\n((?:    - .+\n)+)", recipe)[1]
    if (in_recipe := {line[6:].replace(" ", "") for line in asked.splitlines()}) != wanted:
        faults.append(f"conda/recipe.yaml asks for {sorted(in_recipe)}, pyproject.toml for {sorted(wanted)}")
    faults += [
        f"conda/recipe.yaml lacks {need}"
        for need in project["build-system"]["requires"]
        if need.replace(">=", " >=") not in recipe
    ]
    named = json.loads((ROOT / "codemeta.json").read_text(encoding="utf-8"))["softwareRequirements"]
    if {word.partition(">")[0] for word in project["project"]["dependencies"]} != set(named):
        faults.append("codemeta.json: softwareRequirements are not the dependencies of pyproject.toml")
    return faults + _oldest_faults(project["project"])


def _oldest_faults(project: dict) -> list[str]:
    """Return where constraints/oldest.txt is not the least version that the package says it works with."""
    extras = project["optional-dependencies"]
    said = [
        need for need in [*project["dependencies"], *(need for name in EXTRAS for need in extras[name])] if ">=" in need
    ]
    least = {need.partition(">=")[0]: re.match(r"[\w.]+", need.partition(">=")[2])[0] for need in said}
    lines = (ROOT / "constraints" / "oldest.txt").read_text(encoding="utf-8").splitlines()
    tried = dict(line.split("==") for line in lines if "==" in line)
    return [
        f"constraints/oldest.txt tries {name} {tried.get(name, 'in any version')}, pyproject.toml says >={needed}"
        for name, needed in least.items()
        if name not in UNTRIED and not (tried.get(name, "") + ".").startswith(needed + ".")
    ]


UNTRIED = {"ray", "stormpy"}  # large, and few versions live on an index


def metadata(options: argparse.Namespace) -> str:
    """Compare the files that describe the package with each other."""
    faults = metadata_faults()
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if options.tag and options.tag != f"v{version()}":
        faults.append(f"the tag is {options.tag}, the version {version()}")
    if options.final and not re.search(rf"^## {re.escape(version())} \(\d{{4}}-\d\d-\d\d\)$", changes, re.MULTILINE):
        faults.append(f"CHANGELOG.md has no heading '## {version()} (YYYY-MM-DD)'")
    if options.final:
        faults += [f"{word} is still in {', '.join(files)}" for word, files in placeholders().items()]
    if faults:
        raise Failed("\n".join(faults))
    return f"version {version()}"


def workflows(_: argparse.Namespace) -> str:
    """Look for what is unsafe in the workflows."""
    run(BIN / "zizmor", "--offline", "--no-progress", ".github")
    return "zizmor finds nothing"


def build(_: argparse.Namespace) -> str:
    """Build sdist and wheel, and look at what is in them."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST)
    sdist, wheel = sdist_file(), wheel_file()
    run(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel)
    run(BIN / "check-wheel-contents", "--ignore", "W002", wheel)  # W002: empty or equal files
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    sources = {name.removeprefix("src/") for name in tracked() if name.startswith("src/")}
    if packed != sources:
        raise Failed(f"wheel and src differ in {sorted(packed ^ sources)[:20]}")
    if "tailwise/py.typed" not in packed:
        raise Failed("the wheel has no py.typed")
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    missing = {name for name in tracked() if not name.startswith((".ci/", ".git", "dist/"))} - inside
    if missing:
        raise Failed(f"the sdist lacks {sorted(missing)[:20]}")
    page = zipfile.ZipFile(wheel).read(f"tailwise-{version()}.dist-info/METADATA").decode().partition("\n\n")[2]
    relative = re.findall(r"\]\((?!https?:|#)[^)]+\)", page)
    if relative:
        raise Failed(f"links of the package's page that lead nowhere: {relative}")
    return f"sdist {sdist.stat().st_size // 1024} KiB, wheel {wheel.stat().st_size // 1024} KiB, {len(packed)} files"


def wheel(_: argparse.Namespace) -> str:
    """Install the wheel alone on each Python that there is."""
    tried = []
    for name, python in pythons().items():
        bin_ = environment(f"wheel-{name}", python, wheel_file())
        run(bin_ / "python", "-W", "error", "-c", "import tailwise", cwd=WORK)
        said = run(bin_ / "tailwise", "plan", "grid-mdp", "--beta", "0.1", "--seed", "0", cwd=WORK)
        if "Take right" not in said:
            raise Failed(f"Python {name}: {said}")
        tried.append(name)
    missing = [name for name in PYTHONS if name not in tried]
    return f"Python {', '.join(tried)}" + (f"; not found here: {', '.join(missing)}" if missing else "")


def extras(_: argparse.Namespace) -> str:
    """Install each extra alone, and use it."""
    python = next(iter(pythons().values()))
    for name, program in EXTRAS.items():
        bin_ = environment(f"extra-{name}", python, f"{wheel_file()}[{name}]")
        if name == "arrow":
            run(bin_ / "tailwise", "convert", "grid-mdp", "grid-mdp.parquet", cwd=WORK)
        run(bin_ / "python", "-c", program, cwd=WORK)
        shutil.rmtree(bin_.parent)
    return ", ".join(EXTRAS)


def oldest(_: argparse.Namespace) -> str:
    """Test the fast part on the oldest versions."""
    return run("make", "test-oldest").strip().splitlines()[-1]


def clone(options: argparse.Namespace) -> str:
    """Follow the README in a fresh clone."""
    if not (ROOT / ".git").exists():
        raise Skipped("this is no clone")
    place = fresh("clone")
    run("git", "clone", "--quiet", "--no-local", ROOT, place)
    return readme_commands(place, quick=options.quick)


def sdist(options: argparse.Namespace) -> str:
    """Follow the README in the unpacked sdist."""
    return readme_commands(unpacked(again=True), quick=options.quick)


def docs(_: argparse.Namespace) -> str:
    """Build the documentation in the unpacked sdist."""
    place = unpacked()
    run("make", "docs", cwd=place)
    if not (place / "site" / "index.html").exists():
        raise Failed("no page was built")
    return f"{len(list((place / 'site').rglob('*.html')))} pages"


def conda(_: argparse.Namespace) -> str:
    """Read and render the conda recipe."""
    try:
        from rattler_build import Stage0Recipe
    except ImportError:
        raise Skipped("py-rattler-build is not installed") from None
    (rendered,) = Stage0Recipe.from_file(ROOT / "conda" / "recipe.yaml").render()
    package = rendered.recipe.package
    if (str(package.name), str(package.version)) != ("tailwise", version()):
        raise Failed(f"the recipe is of {package.name} {package.version}")
    return f"{package.name} {package.version}; solving and building need a channel"


STEPS: dict[str, Callable[[argparse.Namespace], str]] = {
    step.__name__: step for step in (metadata, workflows, build, wheel, conda, extras, oldest, clone, sdist, docs)
}
BIN = Path(sys.executable).parent


def sdist_file() -> Path:
    """Return the sdist that was built."""
    return _built(f"tailwise-{version()}.tar.gz")


def wheel_file() -> Path:
    """Return the wheel that was built."""
    return _built(f"tailwise-{version()}-py3-none-any.whl")


def _built(name: str) -> Path:
    if not (DIST / name).exists():
        raise Failed(f"dist/{name} is not there: name the step build as well")
    return DIST / name


def pythons() -> dict[str, Path]:
    """Return the supported Pythons of this machine, by version."""
    found = {}
    for name in PYTHONS:
        homes: Iterable[Path] = sorted(Path.home().glob(f".pyenv/versions/{name}.*/bin/python"))
        for candidate in [*homes, shutil.which(f"python{name}"), sys.executable]:
            if candidate and name not in found:
                said = subprocess.run(
                    [candidate, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"],
                    capture_output=True,
                    text=True,
                )
                if said.stdout.strip() == name:
                    found[name] = Path(candidate)
    return found


def environment(name: str, python: Path, package: Path | str) -> Path:
    """Make an environment with one package and what it needs; its folder of programs."""
    place = fresh(name)
    run(python, "-m", "venv", place)
    run(place / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", package, cwd=WORK)
    run(place / "bin" / "python", "-m", "pip", "check")
    return place / "bin"


def fresh(name: str) -> Path:
    """Return a place for a folder, with nothing there."""
    WORK.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(WORK / name, ignore_errors=True)
    return WORK / name


def unpacked(*, again: bool = False) -> Path:
    """Return the folder of the unpacked sdist."""
    place = WORK / f"tailwise-{version()}"
    if again or not place.exists():
        fresh(place.name)
        run("tar", "-xf", sdist_file(), "-C", WORK)  # extractall needs a filter, which Python 3.11.3 does not know
    return place


def readme_commands(place: Path, *, quick: bool) -> str:
    """Run the two commands of the README."""
    if "Take right" not in run("make", "plan", cwd=place):
        raise Failed("make plan did not take right")
    if quick:
        run("make", ".venv/dev.stamp", ".venv/package.stamp", cwd=place)
        few = ("tests/test_import.py", "tests/test_release.py", "tests/risk")
        said = run(place / ".venv" / "bin" / "python", "-m", "pytest", "-q", "-m", "not slow", *few, cwd=place)
        return "make plan; a few tests: " + said.strip().splitlines()[-1]
    said = run("make", "test", cwd=place)
    return "; ".join(re.findall(r"\d+ passed[^\n]*", said))


def main() -> None:
    """Run the steps that are named, and say what only a person can do."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="*", help=f"which of {', '.join(STEPS)}; all if none is named")
    parser.add_argument("--quick", action="store_true", help="a few tests in place of the whole suite")
    parser.add_argument("--final", action="store_true", help="placeholders and a changelog without a date are faults")
    parser.add_argument("--tag", help="the tag that makes the release")
    parser.add_argument(
        "--write-version", action="store_true", help="copy the version to the files that other tools read, no more"
    )
    options = parser.parse_args()
    if options.write_version:
        write_version()
        return
    if unknown := sorted(set(options.steps) - set(STEPS)):
        parser.error(f"no step is called {unknown[0]!r}; there are {', '.join(STEPS)}")
    failed = []
    for name in [step for step in STEPS if step in options.steps or not options.steps]:
        begun = time.monotonic()
        try:
            verdict, said = "holds", STEPS[name](options)
        except Skipped as reason:
            verdict, said = "left out", str(reason)
        except Failed as fault:
            verdict, said = "FAILS", str(fault)
            failed.append(name)
        print(f"{name:10}{verdict:10}{time.monotonic() - begun:6.0f} s  {said}", flush=True)
    print("\nOnly a person can do:")
    for line in PERSON:
        print(f"- {line}")
    for word, files in placeholders().items():
        print(f"- {word}: {', '.join(files)}")
    print(f"\n{len(failed)} failed" + (f": {', '.join(failed)}" if failed else ""))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
