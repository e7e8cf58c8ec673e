"""Make the pictures of reports in docs/pictures: pages as a headless Chromium shows them.

    python benchmarks/report_pictures.py [--out docs/pictures]

Needs chromium and chromedriver, and the extras ``report`` and ``dev``.
"""

from __future__ import annotations

import argparse
import base64
import sys
import tempfile
from pathlib import Path

from tailwise import ErmMcts, backward_induction, domains, evaluate, frontier, load, make_planner, sensitivity
from tailwise.evaluation import Sensitivity, compare
from tailwise.models import tabulate
from tailwise.report import Document, comparison_report, frontier_report, recorded_plan, what_if_report
from tailwise.report.policy_charts import policy_chart

ROOT = Path(__file__).resolve().parents[1]


def pages(folder: Path) -> dict[str, Path]:
    """Write the pages that the pictures show."""
    grid = domains.make("grid-mdp")
    plan = make_planner(grid, 0.1, seed=0).plan(iterations=5_000)
    tree = recorded_plan(ErmMcts(grid, 0.1, preset="auto", seed=1), iterations=50_000)
    played = [
        evaluate(grid, backward_induction(grid, beta), episodes=2_000, seed=0, label=label)
        for beta, label in ((0.1, "beta 0.1"), (0.02, "beta 0.02"), (0.3, "beta 0.3"))
    ]
    rows = [(one, one.summary(0.1), compare(one, played[0], 0.1)) for one in played]
    inventory = tabulate(domains.make("inventory"))
    machine = tabulate(domains.make("machine-maintenance"))
    policies = [policy_chart(backward_induction(model, 0.05)) for model in (grid, inventory, machine)]
    documents = {
        "frontier": frontier_report(frontier(grid), model=grid),
        "compare": comparison_report(rows, model=grid, optimum=backward_induction(grid, 0.1).value),
        "policies": Document("Policies", policies),
        "tornado": what_if_report([_varied()], model=machine),
    }
    found = {name: document.save(folder / f"{name}.html") for name, document in documents.items()}
    return {"plan": plan.report(folder / "plan.html"), "tree": tree.report(folder / "tree.html"), **found}


def _varied() -> Sensitivity:
    rows = {
        "idstatefrom": ["good", "good", "good", "good", "worn", "worn", "worn", "worn", "failed"],
        "idaction": ["run", "run", "run", "service", "run", "run", "service", "service", "repair"],
        "idstateto": ["good", "worn", "failed", "good", "worn", "failed", "good", "worn", "good"],
        "probability": [0.8, 0.18, 0.02, 1.0, 0.75, 0.25, 0.95, 0.05, 1.0],
        "cost": [0.0, 0.0, 0.0, 4000.0, 500.0, 500.0, 6000.0, 6000.0, 45000.0],
    }
    numbers = [
        "cost[failed,repair]",
        "cost[worn,service]",
        "p[worn,run,failed]",
        "p[good,run,failed]",
        "cost[good,service]",
    ]
    return sensitivity(load(rows, horizon=26, start="good"), 1e-5, numbers, spread=0.6)


# name: page, dark, width, the part from one selector to another (or to so many pixels below its top)
PICTURES = {
    "report": ("plan", False, 860, "h1", 1262),
    "report-change": ("plan", False, 860, "#what-would-change-the-decision", "#what-may-follow"),
    "report-follow": ("plan", False, 860, "#what-may-follow", "#settings-seed-and-versions"),
    "report-search": ("tree", True, 860, "#how-the-search-got-there", "#settings-seed-and-versions"),
    "report-narrow": ("plan", True, 400, "h1", 1100),
    "report-frontier": ("frontier", False, 860, "h1", "#distribution-of-the-total"),
    "report-compare": ("compare", False, 860, "h1", "#distribution-of-the-total"),
    "tornado": ("tornado", False, 860, ".plot", ".wide"),
    "report-policies": ("policies", False, 860, "h1", 1500),
}

_WHERE = """
const top = document.querySelector(arguments[0]).getBoundingClientRect().top + scrollY - 12;
const end = typeof arguments[1] === 'number' ? top + arguments[1]
  : document.querySelector(arguments[1]).getBoundingClientRect().top + scrollY - 12;
return [top, end - top];
"""


def main() -> None:
    """Make the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures")
    out = parser.parse_args().out
    sys.path.insert(0, str(ROOT / "tests"))
    import browser as browsers

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = pages(folder)
        browser = browsers.Browser(browsers.start(folder / "profile"))
        for picture, (page, dark, width, first, last) in PICTURES.items():
            browser.open(found[page], width=width, dark=dark)
            browser.wait("return document.documentElement.dataset.drawn === 'yes'")
            top, height = browser.run(_WHERE, first, last)
            clip = {"x": 0, "y": top, "width": width, "height": height, "scale": 1}
            shot = {"captureBeyondViewport": True, "clip": clip}
            data = browser.driver.execute_cdp_cmd("Page.captureScreenshot", shot)["data"]
            path = out / f"{picture}.png"
            path.write_bytes(base64.b64decode(data))
            print(f"{path}: {path.stat().st_size / 1e3:.0f} kB")
        browser.driver.quit()


if __name__ == "__main__":
    main()
