"""From a model to what the compiled search runs on: tables, accrued costs, Python and compiled simulators."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
from numba import config

from tailwise.bindings.interface import BudgetSpentError, ModelInterface, position_of
from tailwise.bindings.options import SimulationOptions
from tailwise.bindings.table import TableInterface
from tailwise.bindings.widening import Widening
from tailwise.errors import ModelError
from tailwise.models import AccruedView, CompiledSimulator, TabularMDP

__all__ = ["BudgetSpentError", "ModelInterface", "SimulationOptions", "Widening", "bind", "position_of"]


@singledispatch
def bind(model: Any, rng: np.random.Generator, options: SimulationOptions) -> ModelInterface:
    """Bind ``model`` to the kernel; ``rng`` is the search's own stream, shared with simulators.

    A model class with an interface of its own registers it by ``bind.register``, as :func:`functools.singledispatch`
    has it.

    Raises
    ------
    ModelError
        If ``model`` is neither a table nor a simulator: names every method that is missing or wrong.
    """
    evaluates = options.widening or options.rollout_policy or options.leaf_value  # asks for a simulator
    if isinstance(model, TabularMDP) and not evaluates:
        return TableInterface(model)
    if isinstance(model, AccruedView) and model.is_table:
        from tailwise.bindings.accrued import AccruedInterface

        return AccruedInterface(model)
    if isinstance(model, CompiledSimulator) and not config.DISABLE_JIT:
        from tailwise.bindings.compiled import CompiledInterface

        try:
            return CompiledInterface(model, rng, options)
        except ModelError:
            if not model.fallback:
                raise
    from tailwise.bindings.python import PythonInterface

    return PythonInterface(model, rng, options)
