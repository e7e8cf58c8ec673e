"""What is no file: built-in problems, Gymnasium environments, models of your own, objects of other libraries.

No library is needed to read its objects. The MDP toolboxes for MATLAB, R and Python take ``P`` and ``R``: one S x S
matrix per action, dense or sparse, and rewards in one of three shapes, (S,), (S, A), or one S x S matrix per action.
QuantEcon's ``DiscreteDP`` in its product form has rewards (S, A), where minus infinity marks an action that is not
allowed, and probabilities (S, A, S); in its state-action form one entry per allowed pair, with dense or sparse
probabilities.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tailwise._lazy import own_module
from tailwise._validate import integer, numeric
from tailwise.errors import ModelError, OptionError, TailwiseError
from tailwise.formats.registry import COMMON, register_format, value_of
from tailwise.models import TabularMDP
from tailwise.models.contract import short
from tailwise.models.simulator import is_partly_observed, validate_simulator

if TYPE_CHECKING:
    from tailwise.models import Alternatives, GymnasiumSimulator, Simulator


def read_domain(target: str, **options: Any) -> TabularMDP | Simulator:
    """Built-in problem, by name; see ``tailwise domains``."""
    from tailwise import domains
    from tailwise.formats.loading import with_common

    own = next((d.options for d in domains.list_domains() if d.name == target), ())
    names = {option.partition("=")[0] for option in own}
    rest = {name: options.pop(name) for name in COMMON if name in options and name not in names}
    return with_common(domains.make(target, **options), rest)


register_format("domain", read_domain, is_file=False)


def read_gym(
    target: str,
    *,
    horizon: int | None = None,
    discount: float | None = None,
    start: int | str | None = None,
    levels: Any = None,
    foresight: bool = False,
    **options: Any,
) -> TabularMDP | GymnasiumSimulator:
    """Gymnasium environment by its id."""
    from tailwise.models import Discretized, GymnasiumSimulator, TabularMDP
    from tailwise.models.gymnasium import make_environment

    factor = 1.0 if discount is None else discount
    env = make_environment(target, **options)
    try:
        if getattr(env.unwrapped, "P", None) is not None and levels is None:
            if isinstance(start, str):
                start = integer(value_of(start), "start", low=0, hint=f"gym:{target} numbers its states")
            return TabularMDP.from_gymnasium(env, horizon=horizon, discount=factor, start=start)
    finally:
        env.close()
    if start is not None:
        raise OptionError(f"gym:{target} starts where its reset() puts it; start= is for tables")
    actions = None if levels is None else Discretized(levels=levels)
    return GymnasiumSimulator(target, horizon=horizon, discount=factor, actions=actions, foresight=foresight, **options)


register_format("gym", read_gym, is_file=False)


def read_python(target: str, **options: Any) -> TabularMDP | Simulator:
    """Model of your own in Python, as MODULE:NAME: what makes it, or the model itself."""
    from tailwise.formats.loading import with_common
    from tailwise.models import GymnasiumSimulator

    module, _, name = target.partition(":")
    if not (module and name):
        raise OptionError(f"python:{target} must be python:MODULE:NAME, as python:shop:Shop for class Shop in shop.py")
    common = {key: options.pop(key) for key in COMMON if key in options}
    try:
        model: Any = getattr(own_module(module), name)
        if callable(model):
            known = inspect.signature(model).parameters
            options |= {key: common.pop(key) for key in tuple(common) if key in known}
            model = model(**options)
        elif options:
            raise OptionError(f"python:{target} is made already, and takes no option {next(iter(options))!r}")
    except TailwiseError:
        raise
    except (Exception, SystemExit) as error:  # whatever code of one's own raises
        raise ModelError(f"python:{target} cannot be made: {type(error).__name__}: {error}") from error
    if hasattr(model, "action_space"):  # an environment
        model = GymnasiumSimulator(model, **{key: common.pop(key) for key in ("horizon", "discount") if key in common})
    if not callable(getattr(model, "step", None)):
        raise ModelError(f"python:{target} is {short(model)}, and no model: it has no step")
    found = with_common(model if not common or hasattr(model, "with_options") else copy.copy(model), common)
    if not getattr(found, "name", ""):
        with contextlib.suppress(AttributeError):
            found.name = name  # type: ignore[misc]  # of a simulator; a table has one
    if not hasattr(found, "num_states") and not is_partly_observed(found):  # no table
        validate_simulator(found, endless=True)
    return found


register_format("python", read_python, is_file=False)


def read_alternatives(
    target: str,
    *,
    weights: Sequence[float] | None = None,
    horizon: int | None = None,
    discount: float | None = None,
    start: int | str | None = None,
) -> Alternatives:
    """Model files with commas, of which one is true, unknown which."""
    from tailwise.formats.loading import load
    from tailwise.models import Alternatives

    names = [name.strip() for name in target.split(",") if name.strip()]
    if not names:
        raise OptionError("alternatives: takes model files, with commas")
    given = {"horizon": horizon, "discount": discount, "start": start}
    common: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    tables: list[Any] = [load(name, **common) for name in names]
    return Alternatives.of(tables, weights, name=target)


register_format("alternatives", read_alternatives, is_file=False)


def from_mdptoolbox(
    transitions: Any, rewards: Any, *, horizon: int, name: str = "mdptoolbox", **options: Any
) -> TabularMDP:
    """Build a table from the arrays of an MDP toolbox.

    Parameters
    ----------
    transitions : array_like of float, shape (A, S, S), or sequence of A matrices (S, S)
        Probabilities ``P[a][s, t]``; each matrix may be a NumPy array or a scipy sparse matrix.
    rewards : array_like of float, shape (S,), (S, A) or (A, S, S), or sequence of A matrices (S, S)
        ``R[s]``, ``R[s, a]`` or ``R[a][s, t]``. The number of dimensions decides, as in the toolboxes.
    horizon : int
        Number of decisions, at least 1.
    name : str
        Name of the problem, for display.
    **options
        ``discount``, ``start``, ``state_labels`` and ``action_labels`` of :meth:`tailwise.TabularMDP.from_arrays`.

    Returns
    -------
    TabularMDP
        With ``sense="reward"``. Sparse matrices stay sparse: O(entries) memory.

    Raises
    ------
    ModelError
        If shapes do not fit, or the probabilities of a state and action do not sum to 1.

    Examples
    --------
    >>> from tailwise.formats import from_mdptoolbox
    >>> transitions = [[[0.5, 0.5], [0.8, 0.2]], [[0.0, 1.0], [0.1, 0.9]]]
    >>> mdp = from_mdptoolbox(transitions, [[5.0, 10.0], [-1.0, 2.0]], horizon=3, discount=0.9)
    >>> mdp.num_states, mdp.num_actions, mdp.outcomes(0, 1)
    (2, 2, [Outcome(probability=1.0, next_state=1, cost=10.0, done=False)])
    """
    from scipy import sparse

    def given(values: Any, what: str) -> Any:
        if sparse.issparse(values):
            if what == "transitions":
                raise ModelError("transitions is one sparse matrix; expected one (S, S) matrix per action")
            return values.toarray()  # rewards (S, A)
        if isinstance(values, np.ndarray) and values.dtype.kind != "O":
            return values
        try:
            listed = list(values)
            return listed if any(map(sparse.issparse, listed)) else np.asarray(listed, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ModelError(f"{what} must hold one numeric (S, S) matrix per action: {error}") from None

    chances, earned = given(transitions, "transitions"), given(rewards, "rewards")
    kind = "ASS" if isinstance(earned, list) else {1: "S", 2: "SA", 3: "ASS"}.get(earned.ndim)
    return TabularMDP.from_arrays(
        chances, rewards=earned, order="ASS", costs_order=kind, horizon=horizon, name=name, **options
    )


def from_discrete_dp(
    problem: Any, *, horizon: int, discount: float | None = None, name: str = "DiscreteDP", **options: Any
) -> TabularMDP:
    """Build a table from a ``quantecon.markov.DiscreteDP``.

    Parameters
    ----------
    problem : DiscreteDP
        Read through its attributes ``R``, ``Q``, ``beta``, and in the state-action forms ``s_indices``
        and ``a_indices``.
    horizon : int
        Number of decisions, at least 1.
    discount : float in (0, 1], optional
        Factor per step; the problem's own ``beta`` if not given.
    name : str
        Name of the problem, for display.
    **options
        ``start``, ``state_labels`` and ``action_labels`` of :meth:`tailwise.TabularMDP.from_arrays`.

    Returns
    -------
    TabularMDP
        With ``sense="reward"``; pairs with reward minus infinity are left out.

    Raises
    ------
    ModelError
        If the object is no DiscreteDP, or its arrays do not describe a table.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from tailwise.formats import from_discrete_dp
    >>> problem = SimpleNamespace(R=[[5.0, 10.0], [-1.0, -float("inf")]], beta=0.95,
    ...                           Q=[[[0.5, 0.5], [0.0, 1.0]], [[0.0, 1.0], [0.5, 0.5]]])
    >>> mdp = from_discrete_dp(problem, horizon=10)
    >>> mdp.discount, mdp.actions(0).tolist(), mdp.actions(1).tolist()
    (0.95, [0, 1], [0])
    """
    from scipy import sparse

    lacking = [key for key in ("R", "Q", "beta") if not hasattr(problem, key)]
    if lacking:
        raise ModelError(f"{type(problem).__name__} has no attribute {lacking[0]!r}; expected a DiscreteDP")
    options |= {"horizon": horizon, "discount": problem.beta if discount is None else discount, "name": name}
    rewards = _floats(problem.R, "R")
    chances = problem.Q if sparse.issparse(problem.Q) else _floats(problem.Q, "Q")
    if chances.ndim == 3:
        return TabularMDP.from_arrays(chances, rewards=rewards, order="SAS", costs_order="SA", **options)
    states, actions = getattr(problem, "s_indices", None), getattr(problem, "a_indices", None)
    if states is None or actions is None:
        raise ModelError("Q has one row per state-action pair, so s_indices and a_indices are needed")
    if chances.ndim != 2:
        raise ModelError(f"Q has shape {chances.shape}; expected (S, A, S), or (L, S) for L pairs")
    rows = sparse.csr_array(chances)
    rows.eliminate_zeros()
    first, second = np.asarray(states).reshape(-1), np.asarray(actions).reshape(-1)
    if not rewards.shape == first.shape == second.shape == (rows.shape[0],):
        raise ModelError(
            f"R, s_indices and a_indices have shapes {rewards.shape}, {first.shape} and {second.shape}; "
            f"expected one entry per row of Q: {rows.shape[0]}"
        )
    allowed, counts = rewards != -np.inf, np.diff(rows.indptr)
    absent = np.flatnonzero(allowed & (counts == 0))
    if absent.size:
        where = f"state {first[absent[0]]}, action {second[absent[0]]}"
        raise ModelError(f"all probabilities are 0 for {where}; rows of Q must sum to 1")
    kept = np.repeat(allowed, counts)
    pairs = np.repeat(np.arange(first.size), counts)[kept]
    return TabularMDP.from_outcomes(
        first[pairs], second[pairs], rows.indices[kept], rows.data[kept], rewards=rewards[pairs],
        num_states=rows.shape[1], **options,
    )  # fmt: skip


def _floats(values: Any, name: str) -> Any:
    return numeric(values, name, ModelError, "a numeric array")
