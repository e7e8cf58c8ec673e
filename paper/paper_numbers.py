"""The numbers of ``paper.md``: computed here, marked there, compared by a test; ``make paper`` writes them anew.

A number stands in the text as ``<!--n:name-->5.55<!--/n-->``; the comments do not show in what is printed from it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tailwise import domains, solve

PAGE = Path(__file__).with_name("paper.md")
MARK = re.compile(r"<!--n:([a-z_]+)-->(.*?)<!--/n-->", re.DOTALL)
AVERSE = 0.1


def compute() -> dict[str, str]:
    """Return every number of the paper, as it is printed."""
    return {
        "averse_beta": f"{AVERSE:g}",
        "high_beta": "1",
        **_grid(),
        **_chain(),
    }


def _grid() -> dict[str, str]:
    """Return what the average and an averse decision maker would do on the grid, exactly."""
    grid = domains.make("grid-mdp")
    neutral, averse = solve(grid, 0.0), solve(grid, AVERSE)
    laws = {"neutral": neutral.distribution(), "averse": averse.distribution()}
    found = {"grid_states": str(grid.num_states), "grid_horizon": str(grid.horizon)}
    for name, law in laws.items():
        found |= {
            f"{name}_mean": f"{law.mean:.2f}",
            f"{name}_erm": f"{law.erm(AVERSE):.2f}",
            f"{name}_worst": f"{law.maximum:.1f}",
            f"{name}_beyond": f"{100 * law.exceedance(20):.1f}",
        }
    return found | {"costly": "20"}


def _chain() -> dict[str, str]:
    """Return the values that the paper's table for its other problem is set beside, exactly."""
    chain = domains.make("mdp-4")
    return {f"chain_{name}": f"{solve(chain, beta).value:.3f}" for name, beta in (("low", AVERSE), ("high", 1.0))}


def main() -> None:
    """Say which numbers differ; write them where asked to."""
    numbers, text = compute(), PAGE.read_text(encoding="utf-8")
    wrong = {name: (said, numbers[name]) for name, said in MARK.findall(text) if said != numbers[name]}
    print(
        "\n".join(f"{name}: {said or 'nothing'}, now {found}" for name, (said, found) in wrong.items()) or "all agree"
    )
    if "--write" in sys.argv:
        PAGE.write_text(MARK.sub(lambda mark: f"<!--n:{mark[1]}-->{numbers[mark[1]]}<!--/n-->", text), encoding="utf-8")
    elif wrong:
        sys.exit(1)


if __name__ == "__main__":
    main()
