"""Parameters kept once: what a planner was made with, as in scikit-learn."""

from __future__ import annotations

import inspect
from typing import Any, Self

from tailwise._random import Seed


class HasParams:
    """Keeps the arguments of the constructor unchanged, whatever the subclass; the first of them is the model.

    ``type(planner)(planner.problem, **planner.get_params(), seed=seed)`` is an equal planner that has found nothing.

    Attributes
    ----------
    problem : object
        The model that the planner was made with; its ``model`` may be a view of it.
    """

    problem: Any
    kind = ""  # its name in the list of planners, where it was made by name
    reason = ""  # why that kind was chosen, where it was
    _params: dict[str, Any]

    def __new__(cls, *args: Any, **keywords: Any) -> Self:
        """Make an instance that knows what it is made with."""
        made = super().__new__(cls)
        made.problem, made._params = _by_name(inspect.signature(cls), args, keywords)
        return made

    def get_params(self) -> dict[str, Any]:
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


def _by_name(
    signature: inspect.Signature, args: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Return the first argument, and the others by name but for the seed."""
    try:
        bound = signature.bind(*args, **keywords)
    except TypeError:
        return None, {}  # the constructor itself says what is wrong
    bound.apply_defaults()
    (_, model), *rest = bound.arguments.items()
    params: dict[str, Any] = {}
    for name, value in rest:
        params |= value if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD else {name: value}
    params.pop("seed", None)
    return model, params
