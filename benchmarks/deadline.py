"""Does ``plan(seconds=.05)`` keep its deadline, and how long does ``advance`` take: ``python benchmarks/deadline.py``.

Closed loops of plans and advances, the first plan of each planner left out (it compiles). Each call is measured by wall
clock and by the processor time of its thread: where the two are far apart, something else had the core, and the line
says for how much of the time. On a machine that others share: ``chrt -f 1`` in front (after each call the loop
sleeps for 10 ms, as long as a robot acts, so that no such program is held up for taking all of a core).
Arguments: calls of each kind; words that the names of the kinds that are wanted have; ``--seconds=.05``;
``--list`` prints the names; ``--where`` prints, of the slowest calls, their number, so that they can be looked at.
"""

import itertools
import math
import sys
import time

import numpy as np

from tailwise import CompiledSimulator, CVaR, GymnasiumSimulator, Simulator, domains, make_planner
from tailwise.evaluation.closed_loop import HiddenPlayer, Player
from tailwise.models.simulator import is_partly_observed

ACTS = 0.01


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


def stock(state, action, rng):
    """Two stores of some thousand states: compiled, so that hundreds of thousands are met in seconds."""
    near, far = state
    near = min(max(near + (action % 3) * 4 - int(rng.random() * 9), 0), 60)
    far = min(max(far + (action // 3) * 4 - int(rng.random() * 9), 0), 60)
    cost = 0.1 * (near + far) + (5.0 if near == 0 else 0.0) + (9.0 if far == 0 else 0.0) + 0.3 * action
    return (near, far), cost, False


def drift(state, action, rng):
    """A place and a speed, as real numbers: states do not come back."""
    place, speed = state
    speed = 0.9 * speed + 0.2 * (action - 1) + 0.3 * (rng.random() - 0.5)
    return (place + speed, speed), abs(place), False


MODELS = {
    "grid-mdp": lambda: domains.make("grid-mdp"),
    "walk, Python": Walk,
    "stock, compiled": lambda: CompiledSimulator(stock, start=(20, 20), horizon=40, actions=9),
    "drift, compiled": lambda: CompiledSimulator(drift, start=(1.0, 0.0), horizon=60, actions=3),
    "sailing 20x20": lambda: domains.make("sailing", size=20),
    "CartPole, Gymnasium": lambda: GymnasiumSimulator("CartPole-v1", horizon=40),
    "tiger": lambda: domains.make("tiger", horizon=20),
    "rock-sample": lambda: domains.make("rock-sample"),
    "light-dark": lambda: domains.make("light-dark"),
}
SEEN = ("erm-mcts", "tree", "learned", "acc-mcts", "uct", "bounded", "distributional", "cvar-mcts")
HIDDEN = ("histories", "learned-beliefs", "beliefs")


class Timed:
    """A player whose calls are measured: (wall, processor) seconds of each."""

    def __init__(self, model, planner, seconds):
        kind = HiddenPlayer if is_partly_observed(model) else Player
        self.player = kind(model, planner, (None, seconds))
        self.plans, self.advances = [], []

    def timed(self, spans, call, *given):
        """Call, and note how long it took."""
        wall, own = time.perf_counter(), time.thread_time()
        found = call(*given)
        spans.append((time.perf_counter() - wall, time.thread_time() - own))
        return found

    def play(self, calls):
        """Play episodes until so many plans were made."""
        player = self.player
        world = player.world(player.model, np.random.SeedSequence(1))
        planner = player.fresh(np.random.SeedSequence(0))
        for episode in itertools.count():
            state, accrued = world.begin(episode), 0.0
            planner.reset()
            for h in range(player.model.horizon):
                action = self.timed(self.plans, player.decide, planner, state, h, accrued)
                if len(self.plans) == calls:
                    return
                time.sleep(ACTS)
                state, cost, done = world.step(state, action, h)
                accrued += player.model.discount**h * cost
                if done or h + 1 == player.model.horizon:
                    break
                self.timed(self.advances, player.follow, planner, action, state, cost, h, accrued)


def spread(spans):
    """Return the spread of some spans in milliseconds."""
    wall, own = 1e3 * np.array(spans or [(math.nan, math.nan)]).T
    return "".join(f"{x:8.2f}" for x in (*np.quantile(wall, (0.5, 0.99)), wall.max(), np.quantile(own, 0.99)))


def main():
    """Measure everything."""
    given = [word for word in sys.argv[1:] if not word.startswith("-")]
    calls, words = int(given[0]) if given else 300, given[1:]
    seconds = next((float(word[10:]) for word in sys.argv if word.startswith("--seconds=")), 0.05)
    print(f"{'milliseconds':36s}{'plan: median, p99, max; p99 processor':>40s}{'advance: the same':>24s}   elsewhere")
    for name, make in MODELS.items():
        model = make()
        for kind in HIDDEN if is_partly_observed(model) else SEEN:
            title = f"{name}, {kind}"
            if not all(word in title for word in words):
                continue
            if "--list" in sys.argv:
                print(title)
                continue
            try:
                planner = make_planner(model, CVaR(0.9) if kind == "cvar-mcts" else 0.1, kind=kind, seed=0)
                planner.plan(seconds=seconds)
                timed = Timed(model, planner, seconds)
                timed.play(calls)
            except ValueError as error:
                print(f"{title:36s} {str(error)[:80]}")
                continue
            wall, own = np.sum(timed.plans + timed.advances, axis=0)
            print(
                f"{title:36s}{spread(timed.plans)}  {spread(timed.advances)}{100 * (1 - own / wall):7.1f} %", flush=True
            )
            if "--where" in sys.argv:
                slow = np.argsort([-one for one, _ in timed.plans])[:8]
                print("    slowest:", ", ".join(f"{k}: {1e3 * timed.plans[k][0]:.1f}" for k in slow))


if __name__ == "__main__":
    main()
