"""Do plans made from logs keep their promise? Random tables, logged by two policies, at four sizes.

Each table is drawn anew: states, actions, branching, costs and horizon. A log of each size and logging policy is played
on it; a model is learned with default settings, solved, and promises an interval (90 %). The plan is then valued on the
true table, exactly. Run as ``python benchmarks/logs.py [--tables 100] [--seed 0]``.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import tailwise
from tailwise.exact import policy_risk
from tailwise.logs import learn_model

SIZES = (30, 100, 300, 1000)
LOGGERS = ("uniform", "skewed")


def random_table(rng: np.random.Generator) -> tailwise.TabularMDP:
    """Return a table in which each action leads to a few states, at a cost of its own."""
    num_states, num_actions = int(rng.integers(5, 21)), int(rng.integers(2, 5))
    branching = int(rng.integers(2, min(num_states, 6) + 1))
    chances = np.zeros((num_states, num_actions, num_states))
    for s in range(num_states):
        for a in range(num_actions):
            chances[s, a, rng.choice(num_states, branching, replace=False)] = rng.dirichlet(np.ones(branching))
    shape = (num_states, num_actions) if rng.random() < 0.5 else (num_states, num_actions, num_states)
    costs = rng.random(shape).round(2)
    horizon = int(rng.integers(5, 16))
    return tailwise.TabularMDP.from_arrays(chances, costs, order="SAS", horizon=horizon)


def play(mdp: tailwise.TabularMDP, logger: str, episodes: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return the columns of a log."""
    choice = rng.dirichlet(np.full(mdp.num_actions, 0.3), mdp.num_states) if logger == "skewed" else None
    if choice is not None:  # mostly one action, with a tenth of all others
        choice = 0.9 * choice + 0.1 / mdp.num_actions
    columns: dict[str, list[Any]] = {name: [] for name in ("episode", "step", "state", "action", "next_state", "cost")}
    for episode in range(episodes):
        state = mdp.start
        for step in range(mdp.horizon):
            shares = None if choice is None else choice[state]
            action = int(rng.choice(mdp.num_actions, p=shares))
            follows, cost, _ = mdp.step(state, action, rng)
            for name, value in zip(columns, (episode, step, state, action, follows, cost), strict=True):
                columns[name].append(value)
            state = follows
    return columns


def study(tables: int, seed: int, beta: float) -> list[dict[str, Any]]:
    """Return a record for each table, size and logging policy."""
    records = []
    for number in range(tables):
        rng = np.random.default_rng([seed, number])
        mdp = random_table(rng)
        for logger in LOGGERS:
            whole = play(mdp, logger, max(SIZES), rng)
            for size in SIZES:
                part = {name: column[: size * mdp.horizon] for name, column in whole.items()}
                # the horizon is known, and what ends an episode is it alone
                log = tailwise.load_episodes({**part, "done": [0] * len(part["state"])})
                model = learn_model(log, horizon=mdp.horizon)
                policy = tailwise.solve(model, beta)
                promise = model.promise(policy, seed=number)
                true = valued(mdp, model, policy, beta)
                records.append({
                    "table": number, "logger": logger, "size": size, "value": policy.value, "true": true,
                    "low": promise.interval.low, "high": promise.interval.high,
                    "optimum": tailwise.solve(mdp, beta).value, "untried": len(promise.never_tried),
                })  # fmt: skip
    return records


def valued(mdp: tailwise.TabularMDP, model: tailwise.TabularMDP, policy: Any, beta: float) -> float:
    """Return what the plan is truly worth; where the log never came it takes the first action."""
    actions = np.zeros((mdp.horizon, mdp.num_states), np.int64)
    known = min(model.num_states, mdp.num_states)
    actions[:, :known] = np.maximum(policy.policy[:, :known], 0)
    return policy_risk(mdp, actions, beta)


def summary(records: list[dict[str, Any]]) -> list[str]:
    """Return the coverage, by size and logging policy, as lines."""
    lines = []
    for logger in (*LOGGERS, None):
        for size in (*SIZES, None):
            some = [r for r in records if logger in (None, r["logger"]) and size in (None, r["size"])]
            inside = np.mean([r["low"] <= r["true"] <= r["high"] for r in some])
            above, below = (
                np.mean([r["true"] > r["high"] for r in some]),
                np.mean([r["true"] < r["low"] for r in some]),
            )
            gap = np.mean([r["true"] - r["value"] for r in some])
            width = np.mean([r["high"] - r["low"] for r in some])
            lines.append(
                f"{logger or 'both':8} {size or 'all':>5}: covered {inside:.1%} (worse {above:.1%}, "
                f"better {below:.1%}), "
                f"true - value {gap:+.3f}, width {width:.3f}"
            )
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--beta", type=float, default=0.0)
    parser.add_argument("--json", default="")
    asked = parser.parse_args()
    found = study(asked.tables, asked.seed, asked.beta)
    if asked.json:
        Path(asked.json).write_text(json.dumps(found))
    print("\n".join(summary(found)))
