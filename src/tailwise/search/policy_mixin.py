"""What planners have in common: parameters that are kept once, as in scikit-learn, and ``act``, as a policy has it."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, Self

from tailwise._random import Seed
from tailwise._validate import integer
from tailwise.errors import OptionError, StateError
from tailwise.models.contract import state_fault

DEFAULT_ITERATIONS = 1000


class PolicyMixin:
    """Keeps the arguments of the constructor unchanged, and gives a planner ``act``, from its ``plan`` and ``reset``.

    The first argument is the model: ``type(planner)(planner.problem, **planner.get_params(), seed=seed)`` is an equal
    planner that has found nothing.

    Attributes
    ----------
    problem : object
        The model that the planner was made with; its ``model`` may be a view of it.
    kind, reason : str
        Its name in the list of planners, where it was made by name, and why that was chosen, where it was.
    """

    problem: Any
    kind = ""
    reason = ""
    _params: dict[str, Any]

    def __new__(cls, *args: Any, **keywords: Any) -> Self:
        """Make an instance that knows what it is made with."""
        made = super().__new__(cls)
        made.problem, made._params = _by_name(inspect.signature(cls.__init__), (made, *args), keywords)
        return made

    def get_params(self) -> dict[str, object]:
        """Return the arguments of the constructor by name, but for the model and the seed.

        Those that were not given have their defaults.
        """
        return dict(self._params)

    def fresh(self, seed: Seed = None) -> Self:
        """Return another planner of the same model with the same options, a new seed and nothing found."""
        made: Any = type(self)
        other = made(self.problem, **self.get_params(), seed=seed)
        other.kind, other.reason = self.kind, self.reason
        return other  # type: ignore[no-any-return]

    def act(
        self: Any,
        state: Any,
        step: int,
        *,
        iterations: int | None = None,
        seconds: float | None = None,
        accrued: float | None = None,
    ) -> object:
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
        integer(step, "step", low=0)
        if state_fault(state):
            raise StateError(f"state {state_fault(state)}")
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
        action: object = self.plan(iterations, seconds).action
        return action

    def save(self, path: str | Path) -> Path:
        """Write the planner to a file: not this kind.

        Raises
        ------
        OptionError
            Always; it says what can be kept instead.
        """
        raise OptionError(
            f"{path}: a {type(self).__name__} cannot be kept in a file; save its plan (plan.save(path)), or take a "
            "search that can: LearnedModelSearch, ErmMcts, AccMcts, NluMcts, Uct, BoundedRtdp or, of hidden states, "
            "HistoryMcts"
        )


def _by_name(
    signature: inspect.Signature, args: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Return the first argument after the instance, and the others by name but for the seed."""
    try:
        bound = signature.bind(*args, **keywords)
    except TypeError:
        return None, {}  # the constructor itself says what is wrong
    bound.apply_defaults()
    _, (_, model), *rest = bound.arguments.items()
    params: dict[str, Any] = {}
    for name, value in rest:
        params |= value if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD else {name: value}
    params.pop("seed", None)
    return model, params
