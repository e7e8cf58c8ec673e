"""Search for aims about the total against exact plans, with luck taken out: ``python benchmarks/cvar_search.py``.

Each plan of a first decision is followed on the problem's table, where the law of its total is computed: exactly on the
paper's problems, elsewhere with paid costs rounded at every step, to a 300th of what the neutral plan pays. Several
seeds of the search: what is left is what sampling did to the plan. Arguments: iterations, seeds.
"""

import sys
import time

import numpy as np

from tailwise import ERM, CVaR, CvarMcts, DistributionalMcts, backward_induction, domains, solve
from tailwise.exact.totals import reach_totals
from tailwise.models import TabularMDP
from tailwise.models.tabulate import tabulate_states
from tailwise.risk import conditional_value_at_risk, erm

CVAR = (
    ("mdp-4", 0.5), ("mdp-4", 0.9), ("grid-mdp", 0.5), ("grid-mdp", 0.9), ("american-put", 0.3),
    ("machine-maintenance", 0.9), ("battery", 0.9), ("inventory", 0.9),
)  # fmt: skip
UTILITIES = (("mdp-4", 0.5), ("grid-mdp", 0.1), ("american-put", 0.1), ("machine-maintenance", 0.05))  # and a beta


def problem(name):
    """Return (model, its table, the model's state of each state of the table)."""
    model = domains.make(name)
    if isinstance(model, TabularMDP):
        return model, model, list(range(model.num_states))
    table, index = tabulate_states(model)
    return model, table, [state for state, _ in sorted(index.items(), key=lambda item: item[1][0])]


def law(table, act, unit):
    """Inner totals and probabilities of ``act(state, step, paid)``, paid costs rounded to ``unit``."""
    pairs, ended = {(table.start, 0.0): 1.0}, {}
    for h in range(table.horizon):
        after = {}
        for (state, paid), mass in pairs.items():
            for probability, target, cost, done in table.outcomes(state, act(state, h, paid), h):
                total = round((paid + table.discount**h * cost) / unit) * unit
                into, key = (ended, total) if done else (after, (target, total))
                into[key] = into.get(key, 0.0) + mass * probability
        pairs = after
    for (state, paid), mass in pairs.items():
        total = paid + table.discount**table.horizon * table.terminal_cost(state)
        ended[total] = ended.get(total, 0.0) + mass
    return table.signed(np.array(list(ended))), np.array(list(ended.values()))


def attained(name, table, states, searches, iterations, worth):
    """Return what the plans of some searches are worth, what they believe, and the median seconds of one."""
    unit = 1e-9 if name in ("mdp-4", "grid-mdp") else abs(backward_induction(table, 0.0).distribution().mean) / 300
    values, beliefs, seconds = [], [], []
    for search in searches:
        begun = time.perf_counter()
        plan = search.plan(iterations=iterations)
        seconds.append(time.perf_counter() - begun)
        values.append(
            worth(*law(table, lambda state, h, paid, plan=plan: action(table, plan, states, state, h, paid), unit))
        )
        beliefs.append(plan.value)
    return np.array(values), np.array(beliefs), float(np.median(seconds))


def action(table, plan, states, state, h, paid):
    """The table's action id: the position of the model's action among those allowed."""
    chosen = plan.act(states[state], h, paid)
    return chosen if not isinstance(chosen, tuple) else table.actions(state)[0]


def shown(values):
    return f"{np.median(values):.4g} ({values.min():.4g} to {values.max():.4g})"


def main(iterations: int, seeds: int) -> None:
    print(
        "| problem | level | exact (gap) | CvarMcts, exact law: median (range) | it believes | risk-neutral | seconds |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, level in CVAR:
        model, table, states = problem(name)
        exact = solve(table, CVaR(level))
        worth = lambda x, w, level=level, t=table: float(t.signed(conditional_value_at_risk(x, level, w)))  # noqa: E731
        found = attained(name, table, states, [CvarMcts(model, level, seed=k) for k in range(seeds)], iterations, worth)
        neutral = backward_induction(table, 0.0).distribution().cvar(level)
        print(
            f"| {name} | {level} | {exact.value:.4g} ({exact.gap:.2g}) | {shown(found[0])} | {shown(found[1])} "
            f"| {neutral:.4g} | {found[2]:.2g} |", flush=True,
        )  # fmt: skip
    print("\n| problem | aim | exact | DistributionalMcts, exact law: median (range) | it believes | risk-neutral |")
    print("|---|---|---|---|---|---|")
    for name, beta in UTILITIES:
        model, table, states = problem(name)
        sign, neutral = (1.0 if table.sense == "cost" else -1.0), backward_induction(table, 0.0).distribution()
        bound = round(neutral.mean, 2)
        square = lambda total, b=bound, s=sign: s * max(s * (total - b), 0.0) ** 2  # noqa: E731
        least = reach_totals(table).minimise(lambda x, b=bound, s=sign: np.maximum(x - s * b, 0.0) ** 2)[0]
        cases = (
            (f"ERM at {beta:g}", ERM(beta), backward_induction(table, beta).value,
             lambda x, w, b=beta, s=sign: s * erm(x, b, w), neutral.erm(beta)),
            ("CVaR at 0.8", CVaR(0.8), solve(table, CVaR(0.8)).value,
             lambda x, w, s=sign: s * conditional_value_at_risk(x, 0.8, w), neutral.cvar(0.8)),
            (f"mean square beyond {bound:g}", square, sign * least,
             lambda x, w, b=bound, s=sign: s * float(np.dot(w, np.maximum(x - s * b, 0.0) ** 2)),
             sign * float(np.dot(neutral.probabilities, np.maximum(sign * (neutral.costs - bound), 0.0) ** 2))),
        )  # fmt: skip
        for aim, objective, exact, worth, plain in cases:
            searches = [DistributionalMcts(model, objective, seed=k) for k in range(seeds)]
            found = attained(name, table, states, searches, iterations, worth)
            print(f"| {name} | {aim} | {exact:.4g} | {shown(found[0])} | {shown(found[1])} | {plain:.4g} |", flush=True)


if __name__ == "__main__":
    main(*(int(text) for text in (sys.argv[1:] + ["5000", "5"][len(sys.argv) - 1 :])))
