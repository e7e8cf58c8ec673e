"""A planner as a policy: plan wherever it is asked, and say the action."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from tailwise.errors import OptionError
from tailwise.search.params import HasParams

DEFAULT_ITERATIONS = 1000


class PolicyMixin(HasParams):
    """What gives a planner ``act(state, step)``, from its ``plan`` and ``reset``; and its parameters."""

    def act(
        self: Any,
        state: Any,
        step: int,
        *,
        iterations: int | None = None,
        seconds: float | None = None,
        accrued: float | None = None,
    ) -> Any:
        """Return the recommended action of one decision: the planner as a policy.

        Where the root stands elsewhere it is reset; in a running episode ``plan`` and ``advance`` keep what was found.

        Parameters
        ----------
        state : object
            The model's state.
        step : int
            Step h of the decision, 0 to H - 1.
        iterations, seconds : optional
            Limits of the plan; 1000 iterations if neither is given.
        accrued : float, optional
            Discounted cost (or reward) paid before, for planners to which it matters: they need it at a later step.

        Raises
        ------
        OptionError
            If ``accrued`` is needed and not given, or given and of no use.
        """
        past: dict[str, float] = {} if accrued is None else {"accrued": accrued}
        matters = "accrued" in inspect.signature(self.reset).parameters
        if past and not matters:
            raise OptionError(f"what was paid before does not matter to {type(self).__name__}; leave accrued out")
        if matters and step > 0 and not past and (state, step) != (self.state, self.step):
            raise OptionError(f"{type(self).__name__} minds what was paid before step {step}: give accrued=")
        if past or (state, step) != (self.state, self.step):
            self.reset(state, step, **past)
        if iterations is None and seconds is None:
            iterations = DEFAULT_ITERATIONS
        return self.plan(iterations, seconds).action

    def save(self, path: str | Path) -> Path:
        """Write the planner to a file: not this kind.

        Raises
        ------
        OptionError
            Always; it says what can be kept instead.
        """
        raise OptionError(
            f"{path}: a {type(self).__name__} cannot be kept in a file; save its plan (plan.save(path)), or take a "
            "search that can: LearnedModelSearch, ErmMcts, AccMcts, NluMcts, Uct or BoundedRtdp"
        )
