"""Exact planning: seconds a sweep, value and memory of one solver on one random table (4 actions x 4 outcomes).

All solve the same problem: least expected total cost of a fixed number of steps, undiscounted. tailwise also solves
it at beta = 0.5, which no other one can.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import common
import numpy as np
from scipy import sparse

ACTIONS, OUTCOMES, STEPS = 4, 4, 10


def tailwise(states: int, beta: float = 0.0) -> Callable[[], float]:
    from tailwise import backward_induction

    mdp = common.random_mdp(STEPS, states, ACTIONS, OUTCOMES)
    backward_induction(mdp.with_options(horizon=1), beta)  # compiles, or loads what was
    return lambda: backward_induction(mdp, beta).value


def risk_averse(states: int) -> Callable[[], float]:
    return tailwise(states, 0.5)


def quantecon(states: int) -> Callable[[], float]:
    from quantecon.markov.ddp import DiscreteDP, backward_induction

    targets, chances, costs = common.random_table(states, ACTIONS, OUTCOMES)
    rows = states * ACTIONS
    offsets = np.arange(rows + 1) * OUTCOMES
    matrix = sparse.csr_matrix((chances.reshape(-1), targets.reshape(-1), offsets), shape=(rows, states))
    problem = DiscreteDP(-costs, matrix, 1.0, np.arange(rows) // ACTIONS, np.arange(rows) % ACTIONS)
    backward_induction(problem, 1)
    return lambda: -float(backward_induction(problem, STEPS)[0][0, 0])


def pymdptoolbox(states: int) -> Callable[[], float]:
    from unittest import mock

    from mdptoolbox import mdp, util

    targets, chances, costs = common.random_table(states, ACTIONS, OUTCOMES)
    offsets = np.arange(states + 1) * OUTCOMES
    matrices = [
        sparse.csr_matrix((chances[a::ACTIONS].reshape(-1), targets[a::ACTIONS].reshape(-1), offsets), (states, states))
        for a in range(ACTIONS)
    ]
    with mock.patch.object(util, "check"):  # it makes the matrices dense: 40 s and 2.5 GB at 10^4 states
        problem = mdp.FiniteHorizon(matrices, -costs.reshape(states, ACTIONS), 1.0, STEPS)

    def solve() -> float:
        problem.run()
        return -float(problem.V[0, 0])

    return solve


def storm(states: int) -> Callable[[], float]:
    import stormpy
    from stormpy.datastructures import SparseMatrixBuilder
    from stormpy.models import SparseMdp, SparseModelComponents, SparseRewardModel, StateLabeling

    targets, chances, costs = common.random_table(states, ACTIONS, OUTCOMES)
    rows = states * ACTIONS
    builder = SparseMatrixBuilder[float](rows, states, rows * OUTCOMES, True, True, states)
    for row in range(rows):
        if row % ACTIONS == 0:
            builder.new_row_group(row)
        for target, chance in zip(targets[row].tolist(), chances[row].tolist(), strict=True):
            builder.add_next_value(row, target, chance)
    labels = StateLabeling(states)
    labels.add_label("init")
    labels.add_label_to_state("init", 0)
    rewards = {"cost": SparseRewardModel[float](optional_state_action_reward_vector=costs.tolist())}
    model = SparseMdp[float](SparseModelComponents[float](builder.build(), labels, rewards))
    (question,) = stormpy.parse_properties(f'R{{"cost"}}min=? [C<={STEPS}]')
    return lambda: float(stormpy.model_checking(model, question).get_value_vector()[0])


SOLVERS = {
    "tailwise": tailwise, "tailwise, beta 0.5": risk_averse, "QuantEcon": quantecon, "pymdptoolbox": pymdptoolbox,
    "Storm": storm,
}  # fmt: skip


def measure(solver: str, states: int) -> dict[str, Any]:
    """Best of three runs after the set-up; memory above the process that has only drawn the numbers."""
    common.random_table(states, ACTIONS, OUTCOMES)
    SOLVERS[solver](100)()
    before = common.resident()
    values = []
    begun = common.seconds(lambda: values.append(SOLVERS[solver](states)))
    solve: Any = values.pop()
    times = [common.seconds(lambda: values.append(solve())) / STEPS for _ in range(3)]
    return {
        "seconds_per_sweep": min(times), "setup_seconds": begun, "value": values[-1],
        "megabytes": max(0.0, common.peak() - before), "states": states,
    }  # fmt: skip


if __name__ == "__main__":
    common.main(measure)
