"""Does ``plan(seconds=.05)`` keep its deadline, and how long does ``advance`` take: ``python benchmarks/deadline.py``.

On a machine that other programs share, wall time tells of them. So by default the clock of the search and of the
measurement alike is the processor time of the thread: what an idle core would show, less page faults that others cause.
``--wall`` measures wall time. Arguments: calls of each kind; words that the names of the kinds
that are wanted have.
"""

import gc
import sys
import time

import numpy as np

import tailwise.search.anytime as anytime
import tailwise.search.anytime_search as anytime_search
import tailwise.search.learned.driver as learned
from tailwise import ErmMcts, LearnedModelSearch, Simulator, domains, make_planner

SECONDS = 0.05


class Walk(Simulator):
    """A walk on a line with a wind, in plain Python."""

    horizon, start = 30, (0, 0)

    def actions(self, state):
        """Left, stay, right."""
        return 3

    def step(self, state, action, rng):
        """Move, be blown, pay the distance."""
        place, seen = state
        place = place + action - 1 + int(rng.integers(-2, 3))
        return (place, min(seen + 1, 5)), float(abs(place)), False


def loop(search, model, calls, clock):
    """Plan and advance through episodes; return the seconds of each plan and each advance."""
    rng, plans, advances = np.random.default_rng(0), [], []
    search.plan(seconds=SECONDS)
    while len(plans) < calls:
        search.reset()
        state = model.start
        for h in range(model.horizon):
            begun = clock()
            plan = search.plan(seconds=SECONDS)
            plans.append(clock() - begun)
            state, _, done = (
                model.step(state, plan.action, rng, h)
                if hasattr(model, "num_states")
                else model.step(state, plan.action, rng)
            )
            if done or len(plans) == calls:
                break
            begun = clock()
            search.advance(plan.action, state)
            advances.append(clock() - begun)
    return plans, advances


def again(search, calls, clock):
    """Plan again and again at one root; return the seconds of each plan."""
    plans = []
    search.reset()
    for _ in range(calls):
        begun = clock()
        search.plan(seconds=SECONDS)
        plans.append(clock() - begun)
    return plans


def big(search, iterations, clock):
    """Grow a tree, and return the seconds of advancing it along its most likely states."""
    search.reset()
    search.plan(iterations=iterations)
    action = search.root.actions[0] if not hasattr(search.root, "best") else search.root.best
    child = max(action.children, key=lambda node: node.visits)
    nodes = child.visits
    begun = clock()
    search.advance(action.action, child.state)
    return clock() - begun, nodes


def say(name, seconds):
    """Print the spread of some durations in milliseconds."""
    ms = 1e3 * np.array(seconds)
    spread = f"median {np.median(ms):6.2f}  p99 {np.quantile(ms, 0.99):6.2f}  max {ms.max():6.2f}"
    print(f"{name:48s} n {ms.size:4d}  {spread}", flush=True)


def main():
    """Measure everything."""
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    calls = int(words[0]) if words else 300
    clock = time.perf_counter if "--wall" in sys.argv else time.thread_time
    for module in (anytime, anytime_search, learned):
        module.time = type("Clock", (), {"perf_counter": staticmethod(clock)})
    grid, walk = domains.make("grid-mdp"), Walk()
    kinds = {
        "grid-mdp, ErmMcts": (ErmMcts(grid, 0.1, seed=0), grid),
        "grid-mdp, make_planner tree": (make_planner(grid, 0.1, kind="tree", seed=0), grid),
        "grid-mdp, learned": (LearnedModelSearch(grid, 0.1, seed=0), grid),
        "Python simulator, ErmMcts": (ErmMcts(walk, 0.1, seed=0), walk),
        "Python simulator, learned": (LearnedModelSearch(walk, 0.1, seed=0), walk),
    }
    kinds = {name: kind for name, kind in kinds.items() if all(word in name for word in words[1:])}
    for name, (search, model) in kinds.items():
        plans, advances = loop(search, model, calls, clock)
        say(f"{name}: plan in a loop", plans)
        say(f"{name}: advance in it", advances)
    for name, (search, _) in kinds.items():
        say(f"{name}: plan at one root", again(search, calls // 3, clock))
        gc.collect()
    for iterations in (10**5, 10**6, 4 * 10**6) if len(words) < 2 else ():
        search = ErmMcts(domains.make("mdp-4"), 0.1, seed=0)
        seconds, nodes = big(search, iterations, clock)
        print(f"advance after {iterations:,} iterations, {nodes:,} visits kept: {1e3 * seconds:.1f} ms", flush=True)


if __name__ == "__main__":
    main()
