"""The plans of a frontier side by side, and what is said of them: what a tail costs, and who is dominated."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

from tailwise._results import MISSING, Columns, Shown, Tabled, aligned, number, plain, span
from tailwise._validate import real
from tailwise.evaluation.returns import Returns
from tailwise.models.contract import Sense
from tailwise.risk.distribution import Measures, ReturnDistribution

LEVELS = (0.9, 0.95, 0.99)
_CHANGE = "differs first from the plan before"
_MOST_SHOWN = 15
_MOST_ATOMS = 1_000_000  # of laws whose shapes are compared, times their number


@dataclass(frozen=True, eq=False)
class FrontierPoint:
    """One plan of a frontier. All numbers are in the model's own sense.

    Attributes
    ----------
    low, high : float
        The betas at which it is optimal; equal where single betas were tried.
    beta : float
        The beta of ``erm``: inside the interval, so that another solve there finds the same policy.
    action : int or None
        First action id, from the start; None where it was searched.
    label : str
        Name of the first action.
    law : ReturnDistribution or Returns
        The plan's total: mean, std, erm, var, cvar, evar, exceedance and more.
    mean, std, erm, worst : float
        Mean and standard deviation of the total, its ERM at ``beta``, and the worst total.
    var, cvar : tuple of float
        At 90, 95 and 99 %.
    exceedance : float or None
        Probability of a total worse than the budget.
    price : float
        Mean given up per unit of 95 % CVaR saved, against the point before; NaN for the first, or where none is saved.
    dominated : bool
        Whether another point is no worse in mean and in 95 % CVaR, and better in one.
    dominated_by : str
        The first action of a point whose whole distribution is better for everyone averse to risk, with its beta; ""
        where there is none, or the distributions are samples, or too large to be compared.
    interval : tuple of (float, float) or None
        90 % interval of ``erm`` where it was sampled.
    change : str
        Where the plan first does something else than the one before, of the places that one comes to; "" if not known.
    """

    low: float
    high: float
    beta: float
    action: int | None
    label: str
    law: Measures
    mean: float
    std: float
    erm: float
    worst: float
    var: tuple[float, ...]
    cvar: tuple[float, ...]
    exceedance: float | None
    price: float = math.nan
    dominated: bool = False
    dominated_by: str = ""
    interval: tuple[float, float] | None = None
    change: str = ""


@dataclass(frozen=True, eq=False)
class Frontier(Shown, Tabled):
    """The plans for a range of betas, in order of beta; as a table, a row for each.

    Attributes
    ----------
    points : tuple of FrontierPoint
        One per distinct plan.
    sense : "cost" or "reward"
        What the totals are.
    budget : float or None
        The total of ``exceedance``.
    exact : bool
        Whether laws and intervals of beta are exact; False for a simulator.
    certified : bool
        Whether no policy can have been missed between the betas that were solved.
    iterations : int or None
        Of each decision, where they were searched.
    """

    points: tuple[FrontierPoint, ...]
    sense: Sense
    budget: float | None
    exact: bool
    certified: bool
    iterations: int | None = None

    @property
    def episodes(self) -> int | None:
        """Played of each point, where they were sampled."""
        sample = self.points[0].law
        return sample.episodes if isinstance(sample, Returns) else None

    @property
    def switches(self) -> tuple[float, ...]:
        """The betas at which the *first action* changes."""
        pairs = zip(self.points, self.points[1:], strict=False)
        return tuple(after.low for before, after in pairs if before.label != after.label)

    @property
    def shown(self) -> tuple[int, ...]:
        """Positions of the points that are printed and drawn: all, or the ends, new first actions, and some between."""
        size = len(self.points)
        new = [k for k in range(1, size) if self.points[k].label != self.points[k - 1].label]
        shown = sorted({0, size - 1, *new[: _MOST_SHOWN - 2]})
        while len(shown) < min(size, _MOST_SHOWN):
            gap, before = max((after - before, before) for before, after in itertools.pairwise(shown))
            shown = sorted([*shown, before + gap // 2])
        return tuple(shown)

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """The points as a table of texts, by heading."""
        columns: dict[str, list[str]] = {}
        for point in self.points:
            cells = {
                "first action": point.label + (" (dominated)" if point.dominated or point.dominated_by else ""),
                "beta": span(point.low, point.high, 7), "mean": number(point.mean), "std": number(point.std),
                "ERM": number(point.erm),
                **{f"CVaR {100 * level:g} %": number(tail) for level, tail in zip(LEVELS, point.cvar, strict=True)},
                "worst": number(point.worst),
                **({} if self.budget is None else {"worse than budget": number(point.exceedance)}),
                "price": number(point.price),
                **({_CHANGE: point.change or MISSING} if any(one.change for one in self.points) else {}),
            }  # fmt: skip
            for name, cell in cells.items():
                columns.setdefault(name, []).append(cell)
        return {name: tuple(cells) for name, cells in columns.items()}

    @property
    def in_words(self) -> tuple[str, ...]:
        """What the frontier says, and how sure it is, in sentences."""
        said = ["The first action is the same throughout."]
        if self.switches:
            said = [f"The first action changes at beta = {', '.join(number(beta, 8) for beta in self.switches)}."]
        said.append(
            "price: mean given up per unit of 95 % CVaR saved, against the plan before. ERM is at the interval's lower "
            "end."
        )
        if (hidden := len(self.points) - len(self.shown)) > 0:
            said.append(f"{hidden:,} more plans lie between these: JSON and to_csv have them all.")
        said += [
            f"By shape {point.dominated_by} dominates {point.label} at beta {number(point.beta, 4)}: nobody averse to "
            "risk prefers the latter."
            for point in self.points
            if point.dominated_by
        ]
        if not self.exact:
            said.append(
                f"Sampled: {self.episodes:,} episodes of each beta were played in closed loop, with "
                f"{self.iterations:,} iterations a decision, on common random numbers; all numbers are uncertain (see "
                "to_dict for 90 % intervals of the ERM). More episodes and iterations make them surer."
            )
        elif not self.certified:
            said.append(
                "More plans may be optimal on short intervals in between: the betas that were solved do not exclude it."
            )
        laws = [point.law for point in self.points]
        if moved := max((law.tolerance for law in laws if isinstance(law, ReturnDistribution)), default=0.0):
            said.append(
                f"Worst and VaR are exact to within {number(moved)}: where there are too many totals, close ones are "
                "merged, or put on a grid."
            )
        return tuple(said)

    def __str__(self) -> str:
        heading, *rows = aligned(self.columns)
        return "\n".join([heading, *(rows[k] for k in self.shown), *self.in_words])

    def to_columns(self) -> Columns:
        """Return the points column by column: numbers, and measures that have levels as ``cvar_95``."""
        names = ("label", "low", "high", "beta", "mean", "std", "erm", "worst", "exceedance", "price", "dominated")
        found: Columns = {name: [getattr(point, name) for point in self.points] for name in names}
        for name in ("var", "cvar"):
            found |= {
                f"{name}_{100 * level:g}": [getattr(point, name)[k] for point in self.points]
                for k, level in enumerate(LEVELS)
            }
        return found

    def to_dict(self) -> dict[str, object]:
        """Return everything but the distributions as plain values, ready for ``json.dumps``."""
        points = [{name: plain(value) for name, value in vars(p).items() if name != "law"} for p in self.points]
        found = {name: plain(getattr(self, name)) for name in ("sense", "exact", "certified", "budget", "switches")}
        return {**found, "points": points}

    def at(self, beta: float) -> FrontierPoint:
        """Return the point for a beta: the one whose interval holds it, or the nearest."""
        level = real(beta, "beta")
        return min(self.points, key=lambda point: max(point.low - level, level - point.high, 0.0))


def point_of(
    law: Measures, low: float, high: float, beta: float, action: int | None, label: str, budget: float | None
) -> FrontierPoint:
    """Return the point of a plan's total."""
    return FrontierPoint(
        low, high, beta, action, label, law, law.mean, law.std, law.erm(beta),
        worst=law.maximum if law.sense == "cost" else law.minimum,
        var=tuple(map(law.var, LEVELS)), cvar=tuple(map(law.cvar, LEVELS)),
        exceedance=None if budget is None else law.exceedance(budget),
    )  # fmt: skip


def compared(points: list[FrontierPoint], sense: Sense) -> tuple[FrontierPoint, ...]:
    """Add what the tail costs, and who is dominated."""
    sign = 1.0 if sense == "cost" else -1.0
    costs = [(sign * point.mean, sign * point.cvar[1]) for point in points]
    spans = [max(part) - min(part) for part in zip(*costs, strict=True)]
    slack = max(1e-12 * abs(x) for pair in costs for x in pair) + 1e-9 * min(spans)
    found = []
    for k, (mean, tail) in enumerate(costs):
        dominated = any(
            m <= mean + slack and t <= tail + slack and (m < mean - slack or t < tail - slack) for m, t in costs
        )
        saved = costs[k - 1][1] - tail if k else 0.0
        price = (mean - costs[k - 1][0]) / saved if saved > slack else math.nan
        found.append(replace(points[k], price=price, dominated=dominated, dominated_by=_better_by_shape(points, k)))
    return tuple(found)


def _better_by_shape(points: list[FrontierPoint], k: int) -> str:
    """Return which point dominates the k-th one, whatever the aversion to risk."""
    if isinstance(points[k].law, Returns):  # of samples it may be no more than luck
        return ""
    if len(points) * sum(point.law.weighted()[0].size for point in points) > _MOST_ATOMS:
        return ""
    found = next((one for one in points if one is not points[k] and one.law.dominates(points[k].law)), None)
    return "" if found is None else f"{found.label} at beta {number(found.beta, 4)}"
