"""CVaR-MCTS closed loop against the exact plan: ``python benchmarks/cvar_search.py [episodes] [iterations]``."""

import sys

from tailwise import CvarMcts, cvar_planning, domains, evaluate, make_planner
from tailwise.models import TabularMDP, tabulate

CASES = (("mdp-4", 0.5), ("mdp-4", 0.9), ("grid-mdp", 0.5), ("grid-mdp", 0.9))
SIMULATORS = (("machine-maintenance", 0.9), ("inventory", 0.9))  # with 200 iterations: their view runs in Python


def main(episodes: int, iterations: int) -> None:
    print("| problem | level | exact CVaR (gap) | CvarMcts, closed loop (90 % interval) | risk-neutral plan |")
    print("|---|---|---|---|---|")
    for name, level in (*CASES, *SIMULATORS):
        model = domains.make(name)
        if not isinstance(model, TabularMDP):
            iterations = 200
        exact = cvar_planning(model if isinstance(model, TabularMDP) else tabulate(model), level)
        found = evaluate(model, CvarMcts(model, level), episodes=episodes, iterations=iterations, seed=0)
        neutral = evaluate(model, make_planner(model, 0.0, kind="neutral-bi"), episodes=episodes, seed=0)
        low, high = found.interval("cvar", level=level)
        print(
            f"| {name} | {level} | {exact.value:.4g} ({exact.gap:.2g}) "
            f"| {found.cvar(level):.4g} ({low:.4g} to {high:.4g}) | {neutral.cvar(level):.4g} |",
            flush=True,
        )


if __name__ == "__main__":
    main(*(int(text) for text in (sys.argv[1:] + ["100", "5000"][len(sys.argv) - 1 :])))
