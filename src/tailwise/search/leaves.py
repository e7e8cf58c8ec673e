"""How a new leaf is valued: by default, one rollout of the model's default policy.

A rule of your own is one file: a frozen dataclass that derives from :class:`Leaf`, the NamedTuple that its method
``compiled`` returns, one function, and one call of :func:`register_leaf`. A value that comes from a Python function
of the state needs no rule: give the search ``leaf_value``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tailwise._jit import ChosenByKind, Kernel
from tailwise._validate import integer
from tailwise.bindings.kernel_model import roll_out
from tailwise.risk.accumulator import push_value


class Leaf:
    """Base class of leaf rules; derive a frozen, keyword-only dataclass from it."""

    def compiled(self) -> NamedTuple:
        """Return what the kernel reads: a NamedTuple whose class was given to :func:`register_leaf`."""
        raise NotImplementedError(f"{type(self).__name__} does not say what the kernel reads: give it compiled()")


@ChosenByKind
def value_leaf(rule, model, state, h, settings, stream):  # type: ignore[no-untyped-def]
    """Return (cost-to-go from ``state`` at step ``h``, simulated steps, status)."""
    raise NotImplementedError


@ChosenByKind
def goes_on(rule):  # type: ignore[no-untyped-def]
    """Whether the selection rule goes on below a new leaf, which then needs no value."""
    return False


def register_leaf(kind: type, function: Kernel) -> None:
    """Make a leaf rule known to the search.

    Parameters
    ----------
    kind : type
        The NamedTuple class that the rule's ``compiled`` returns.
    function : callable
        ``function(rule, model, state, h, settings, stream) -> (cost_to_go, steps, status)``; the status is that of
        :func:`tailwise.bindings.kernel_model.roll_out`.
    """
    value_leaf.register(kind, function)


@dataclass(frozen=True, kw_only=True)
class Rollout(Leaf):
    """The ERM of a few rollouts of the default policy (uniform random, or the model's own).

    Parameters
    ----------
    repeats : int, default 1
        Number of rollouts; the paper's experiments take one.
    """

    repeats: int = 1

    def __post_init__(self) -> None:
        integer(self.repeats, "repeats", low=1)

    def compiled(self) -> OneRollout | Rollouts:
        """Return the number of rollouts."""
        return OneRollout(1) if self.repeats == 1 else Rollouts(self.repeats)


class OneRollout(NamedTuple):
    """One rollout, as the kernel reads it."""

    repeats: int


class Rollouts(NamedTuple):
    """Several rollouts, as the kernel reads them."""

    repeats: int


class WholePath(NamedTuple):
    """No leaf is valued: the selection rule is followed to the horizon (``expansion="path"``)."""

    goes_on: bool = True


def one_rollout(rule, model, state, h, settings, stream):  # type: ignore[no-untyped-def]
    """Roll out once."""
    return roll_out(model, state, h, settings.horizon, settings.discount, stream)


def rollouts(rule, model, state, h, settings, stream):  # type: ignore[no-untyped-def]
    """ERM of several rollouts at the leaf's own risk level."""
    value, steps = 0.0, 0
    for k in range(rule.repeats):
        cost, taken, status = roll_out(model, state, h, settings.horizon, settings.discount, stream)
        steps += taken
        if status < 0:
            return cost, steps, status
        value = push_value(value, k + 1, cost, settings.betas[h])
    return value, steps, status


def never(rule, model, state, h, settings, stream):  # type: ignore[no-untyped-def]
    """Stand in for a value that is not asked for."""
    return 0.0, 0, 0


def always(rule):  # type: ignore[no-untyped-def]
    """Go on."""
    return True


register_leaf(OneRollout, one_rollout)
register_leaf(Rollouts, rollouts)
register_leaf(WholePath, never)
goes_on.register(WholePath, always)
