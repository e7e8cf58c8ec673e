"""ICU-Sepsis: what plans from n logged patients promise, and what they give (docs/logs.md).

The environment is ``icu-sepsis`` from PyPI (MIT; ``pip install --no-deps icu-sepsis``), of which only the arrays are
read. Patients are treated as the clinicians did, a model is learned with default settings and from frequencies, and
the plan is valued on the true arrays; where it knows no action, the clinicians' most frequent one is taken.
Run as ``python benchmarks/icu_sepsis.py ASSETS [--patients 10000] [--seeds 20]``, ASSETS the folder of dynamics.npz.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import tailwise

HORIZON = 60
ENDS = (713, 714, 715)


class Ward:
    """The true arrays."""

    def __init__(self, assets: Path) -> None:
        arrays = np.load(assets / "dynamics.npz")
        self.chances, self.rewards = arrays["tx_mat"], arrays["r_mat"]
        self.begins, self.clinicians = arrays["d_0"], arrays["expert_policy"]
        self.expected = (self.chances * self.rewards).sum(axis=2)
        self.sums = self.chances.cumsum(axis=2)

    def worth(self, shares: Any) -> float:
        """Return the share of patients that survive; ``shares(h)`` are the chances of actions, shape (S, A)."""
        values = np.zeros(self.begins.size)
        for h in range(HORIZON - 1, -1, -1):
            values = (shares(h) * (self.expected + self.chances @ values)).sum(axis=1)
            values[list(ENDS)] = 0.0
        return float(self.begins @ values)

    def played(self, patients: int, rng: np.random.Generator) -> dict[str, Any]:
        """Return the columns of a log of patients whom the clinicians treat."""
        states = rng.choice(self.begins.size, size=patients, p=self.begins)
        alive, parts, step = np.arange(patients), [], 0
        while (alive := alive[~np.isin(states[alive], ENDS)]).size:
            here = states[alive]
            actions = drawn(self.clinicians.cumsum(axis=1)[here], rng)
            follows = drawn(self.sums[here, actions], rng)
            rewards = self.rewards[here, actions, follows]
            done = np.isin(follows, ENDS)
            parts.append((alive, np.full(alive.size, step), here, actions, follows, rewards, done))
            states[alive] = follows
            step += 1
        names = ("episode", "step", "state", "action", "next_state", "reward", "done")
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        order = np.lexsort((columns[1], columns[0]))
        return {name: column[order] for name, column in zip(names, columns, strict=True)}


def drawn(sums: Any, rng: np.random.Generator) -> Any:
    """Return an index for each row of cumulated chances."""
    return np.minimum((sums < rng.random(len(sums))[:, None]).sum(axis=1), sums.shape[1] - 1)


def gives(ward: Ward, log: tailwise.Episodes, model: Any, policy: Any) -> float:
    """Return what a plan is truly worth."""
    actions = np.asarray(policy.policy)[int(model.num_states > log.num_states) :, : log.num_states]
    states = np.array(log.state_labels or range(log.num_states), dtype=np.int64)
    ids = np.array(log.action_labels or range(log.num_actions), dtype=np.int64)

    def shares(h: int) -> Any:
        taken = ward.clinicians.argmax(axis=1)
        planned = actions[min(h, len(actions) - 1)]
        taken[states] = np.where(planned >= 0, ids[np.maximum(planned, 0)], taken[states])
        return np.eye(ward.clinicians.shape[1])[taken]

    return ward.worth(shares)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("assets", type=Path)
    parser.add_argument("--patients", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=20)
    asked = parser.parse_args()
    ward = Ward(asked.assets)
    print(f"clinicians: {ward.worth(lambda h: ward.clinicians):.4f}")
    for prior in ("auto", "seen"):
        found = []
        for seed in range(asked.seeds):
            log = tailwise.load_episodes(ward.played(asked.patients, np.random.default_rng(seed)))
            model = tailwise.learn_model(log, prior=prior)
            policy = tailwise.solve(model, 0.0)
            low, high = policy.promise.interval
            true = gives(ward, log, model, policy)
            found.append((policy.value, true, policy.value - true, low <= true <= high))
        mean = np.mean(found, axis=0)
        most = max(row[2] for row in found)
        print(
            f"{prior}: promises {mean[0]:.4f}, gives {mean[1]:.4f}, at most {most:.4f} too much, covered {mean[3]:.0%}"
        )
