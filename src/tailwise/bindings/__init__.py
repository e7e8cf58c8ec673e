"""From a model to what the compiled search runs on: tables, accrued costs, Python and compiled simulators."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from tailwise._jit import DISABLE_JIT
from tailwise.bindings.kernel_model import BudgetSpentError, ModelInterface, position_of
from tailwise.bindings.options import SimulationOptions, Widening
from tailwise.bindings.table import AccruedInterface, TableInterface
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
    from tailwise.bindings.python import PythonInterface

    return PythonInterface(model, rng, options)


@bind.register
def _bind_table(model: TabularMDP, rng: np.random.Generator, options: SimulationOptions) -> ModelInterface:
    given = options.widening, options.rollout_policy, options.leaf_value, options.bounds, options.rare_outcomes
    if not any(given):
        return TableInterface(model)
    from tailwise.bindings.python import PythonInterface  # these ask for a simulator

    return PythonInterface(model, rng, options, model.find_state)


@bind.register
def _bind_accrued(model: AccruedView, rng: np.random.Generator, options: SimulationOptions) -> ModelInterface:
    if not model.is_table:
        return _bind_python(model, rng, options)
    return AccruedInterface(model)


@bind.register
def _bind_compiled(model: CompiledSimulator, rng: np.random.Generator, options: SimulationOptions) -> ModelInterface:
    if DISABLE_JIT or options.bounds or options.rare_outcomes:
        return _bind_python(model, rng, options)
    from tailwise.bindings.compiled import CompiledInterface

    try:
        return CompiledInterface(model, rng, options)
    except ModelError:
        if not model.fallback:
            raise
    return _bind_python(model, rng, options)


_bind_python = bind.dispatch(object)
