"""Search for the mean of a utility of the total cost: what AccMcts and NluMcts share.

The search runs on the accrued-cost view of the table (:mod:`tailwise.models.accrued`) with plain means
(accumulators at beta = 0), so the numbers of a plan are *utilities*. Where the utility has an
inverse, the plan also gives certainty equivalents: the sure total cost that is as good.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from tailwise._random import Seed
from tailwise._validate import real
from tailwise.errors import OptionError, StateError
from tailwise.models import TabularMDP
from tailwise.models.accrued import AccruedTable, ExponentialUtility
from tailwise.search import Plan, SearchOptions, StopReason, TreeSearch


@dataclass(frozen=True)
class UtilityPlan(Plan):
    """A plan whose values are utilities of the episode's total, the accrued part included.

    Attributes
    ----------
    utility : str
        The utility, and for an exponential one whether the form is raw or rescaled.
    certainty_equivalent : float or None
        Total cost (or reward) as good as ``value``; None where the utility has no known inverse. Unlike
        the ERM of a plan of :class:`tailwise.ErmMcts` it counts what was paid before the root.
    certainty_equivalents : tuple of float
        The same for each row; empty where the utility has no known inverse.
    """

    utility: str = ""
    certainty_equivalent: float | None = None
    certainty_equivalents: tuple[float, ...] = ()

    def __str__(self) -> str:
        equivalent = self.certainty_equivalent
        lines = [
            f"take {self.label}: mean utility {self.value:.6g}, utility u(x) = {self.utility}",
            f"{self.iterations} iterations, {self.simulator_steps} steps, {self.nodes} nodes, "
            f"{self.seconds:.3g} s; {self.stopped.message}",
        ]
        if equivalent is not None:
            lines.insert(1, f"certainty equivalent of the whole episode: {equivalent:.6g} ({self.sense}s)")
        for k, row in enumerate(self.rows):
            sure = f"  as good as {self.certainty_equivalents[k]:.6g}" if self.certainty_equivalents else ""
            lines.append(f"  {row.label:>12}  visits {row.visits:>9}  utility {row.erm:.6g}{sure}")
        return "\n".join(lines)


class UtilitySearch(TreeSearch):
    """A search on the accrued-cost view of a table; see :class:`AccMcts` and :class:`NluMcts`.

    Parameters
    ----------
    view : AccruedTable
        The table with its utility.
    options : SearchOptions
        How to search; ``beta`` must be 0.
    seed : None, int, SeedSequence or Generator
        Source of all randomness.
    """

    model: AccruedTable

    def __init__(self, view: AccruedTable, options: SearchOptions, *, seed: Seed = None) -> None:
        super().__init__(view, options, seed=seed)

    @property
    def mdp(self) -> TabularMDP:
        """The table."""
        return self.model.mdp

    @property
    def accrued(self) -> float:
        """Discounted cost (or reward) paid before the root."""
        return float(self.state[1])

    def reset(self, state: Any = None, step: int = 0, *, accrued: float = 0.0) -> None:
        """Forget the tree and start a fresh one.

        Parameters
        ----------
        state : int or str, optional
            Root state of the table; its start if not given.
        step : int, default 0
            Step of the root, 0 to H - 1.
        accrued : float, default 0.0
            Discounted cost (or reward) of the steps before it; it matters to a utility of the total.

        Raises
        ------
        StateError
            If the table has no such state.
        OptionError
            If ``step`` or ``accrued`` is out of range.
        """
        paid = real(accrued, "accrued")
        super().reset((self.model.mdp.start if state is None else state, paid), step)

    def advance(self, action: Any, state: Any, *, cost: float | None = None) -> None:
        """Re-root after ``action`` was taken and ``state`` was observed.

        Parameters
        ----------
        action : int or str
            What was done.
        state : int or str
            The table's state that followed.
        cost : float, optional
            What the step cost (or earned), not discounted. Needed only where two outcomes of the action
            lead to this state at different costs.

        Raises
        ------
        StateError
            If the action is not allowed here, the table has no such state, or no outcome leads to it.
        OptionError
            If the horizon was reached already, or ``cost`` is needed and not given.
        """
        if self.step >= self.model.horizon:
            raise OptionError(f"the horizon ({self.model.horizon} steps) is reached; call reset() to start again")
        index = self.mdp.find_state(state)
        paid = self._cost_to(action, index) if cost is None else real(cost, "cost")
        accrued = self.accrued + float(self.model.powers[self.step]) * paid
        super().advance(action, (index, accrued))

    def _cost_to(self, action: Any, target: int) -> float:
        """Return the one cost at which ``action`` leads to ``target``, in the table's own sense."""
        origin, mdp = self.state[0], self.mdp
        ids = [int(known) for known in mdp.actions(origin)]
        if isinstance(action, str):
            action = next((known for known in ids if mdp.action_name(known) == action), action)
        found = {o.cost for o in mdp.outcomes(origin, action, self.step) if o.next_state == target}
        if len(found) == 1:
            return found.pop()
        where = f"action {action!r} in state {mdp.state_name(origin)} to state {mdp.state_name(target)}"
        if not found:
            raise StateError(f"{where}: no such outcome in the table; if it did happen, pass its cost=")
        raise OptionError(
            f"{where} has {len(found)} possible costs ({', '.join(f'{c:g}' for c in sorted(found))}); say "
            "which was paid: advance(action, state, cost=...)"
        )

    def _report(self, before: Any, begun: float, stopped: StopReason) -> UtilityPlan:
        plan = super()._report(before, begun, stopped)
        fields = {f.name: getattr(plan, f.name) for f in dataclasses.fields(plan)}
        utility = self.model.utility
        if isinstance(utility, ExponentialUtility):
            signed = self.mdp.signed
            fields["utility"] = str(utility)
            fields["certainty_equivalent"] = float(signed(utility.inverse(signed(plan.value))))
            fields["certainty_equivalents"] = tuple(
                float(signed(utility.inverse(signed(row.erm)))) for row in plan.rows
            )
        else:
            fields["utility"] = str(getattr(utility, "__name__", repr(utility)))
        return UtilityPlan(**fields)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(mdp={self.mdp.name!r}, utility={self.model.utility!s})"
