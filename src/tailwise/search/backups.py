"""What a backup is: how the costs of one iteration change the values of the actions on its path.

A backup of your own is one file: a frozen dataclass that derives from :class:`Backup`, the NamedTuple that its method
``compiled`` returns, one function over the path, and one call of :func:`register_backup`.

The function finds the path of ``length`` steps, from the root at step ``depth``, in ``trace``: for k = 0 .. length - 1
the decision node ``path_nodes[k]``, the action ``path_units[k]`` and the cost ``path_costs[k]``. ``path_nodes[length]``
is the new leaf, 0 where the episode ended. It counts the visit of each action (``arena.ints[4 * unit + COUNT]``),
updates its value (``arena.floats[2 * unit]``), leaves the cost-to-go of each step in ``trace.costs_to_go`` and returns
the discounted total of the path. What the leaf was valued at comes in as ``tail``.

*Sampled*, the paper's: the ERM of the costs-to-go that were sampled (eq. ``mcts_state_node_erm_estimator``).
``x_h = c_h + discount x_{h+1}`` enters the running ERM of each action on the path at ``beta_h``. It is what
:func:`tailwise.risk.accumulator.push_value` does at each step, in three passes, so that the exponentials and logarithms
of eight steps are taken at once, in vector registers (``log_means``); hence the cut-offs of its own. The C library's
``expm1`` and ``log1p`` take 20 ns a pair, which is more than the rest of a search step; the same polynomials on eight
lanes take 1.3 ns a pair (measured: ``make bench``). numba does not vectorise calls by itself, hence the LLVM
instructions by hand: with a plain loop over ``log1p`` and ``expm1`` in their place a whole iteration of the paper's
preset takes 22 % longer on mdp-4 and 38 % longer on grid-mdp. The method, per lane:

    exp    y = k ln 2 + r with |r| <= (ln 2) / 2; expm1(r) by its Taylor polynomial, degree 13;
           expm1(y) = 2^k expm1(r) + (2^k - 1)
    log    1 + z = 2^j m with m in [sqrt(1/2), sqrt(2)); ln m = 2 artanh(s), s = f / (2 + f), where
           f = z itself while j = 0, so that a small z keeps its relative precision

Relative error below 5e-16 for -700 <= y <= 700 and 0 < p <= 1/2 (tested against 50-digit arithmetic); p = 1 is not
for it.

*Off-policy*: what goes up from a node is the worth of its best action, not the cost of an experiment.

The paper's estimate of an action mixes the costs-to-go of all actions that were tried below it, the bad ones too, which
fades only as fast as exploration does. Here, where the action taken at a node is not its best one by now, the
cost-to-go is replaced by the best one's value on the way up (as Watkins' Q(lambda) cuts its traces). That is
consistent for the entropic risk, since ``ERM_{beta_h}(c + discount X)`` does not change when X is replaced, given the
next state, by its own ERM at ``beta_{h+1} = discount beta_h`` (the tower property).

The least of many estimates is too low, the more so the fewer samples they have: that of actions taken once each is the
luckiest sample. It would make states that come back, where estimates are many, look better than those that do not. So
only actions that were taken ``least_visits`` times count as a node's best.

*Bellman*: an action's value is the ERM, under the frequencies seen, of cost plus the best value below.

    Q(s, a) = ERM_{beta_h} over the outcomes seen of  c + discount V(s'),    V(s') = min over tried actions of Q(s', .)

evaluated anew for every action on the path, from its end to the root (eq. ``erm_bellman_optimality``, with sampled
frequencies). Each node keeps how often its state was the outcome, and the ERM of the costs with which it was, so that
outcomes of different costs stay apart; each action the same for outcomes that ended the episode. The worth of a leaf is
its rollout's. Costs O(children) an action.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from tailwise._jit import DISABLE_JIT, ChosenByKind, Kernel, inlined
from tailwise._validate import integer
from tailwise.bonuses import Slots
from tailwise.risk.accumulator import merge_values, push_value
from tailwise.search.arena import CHILD, COUNT, LEFT, NUM_ACTIONS, RIGHT, least_value


class Settings(NamedTuple):
    """What every rule may read; H is the horizon."""

    horizon: int
    discount: float
    betas: NDArray[np.float64]  # (H,) risk level of each step
    tries_at_random: bool  # the order of untried actions


class Backup:
    """Base class of backups; derive a frozen, keyword-only dataclass from it.

    Attributes
    ----------
    node_statistics, action_statistics : dict of str to float
        Names and first values of what the search keeps for the backup with each decision node, and with each action.
    is_sampled : bool
        Whether an action's value is the ERM of the totals sampled through it. Where not, the intervals of a plan reach
        from the one to the other.
    """

    node_statistics: ClassVar[dict[str, float]] = {}
    action_statistics: ClassVar[dict[str, float]] = {}
    is_sampled: ClassVar[bool] = False

    def compiled(self, slots: Slots) -> NamedTuple:
        """Return what the kernel reads: a NamedTuple whose class was given to :func:`register_backup`."""
        raise NotImplementedError(f"{type(self).__name__} does not say what the kernel reads: give it compiled()")


@ChosenByKind
def back_up(rule, arena, settings, trace, depth, length, tail):  # type: ignore[no-untyped-def]
    """Update the actions of a path; return the total cost from its root (see the module's docstring)."""
    raise NotImplementedError


def register_backup(kind: type, function: Kernel) -> None:
    """Make a backup known to the search.

    Parameters
    ----------
    kind : type
        The NamedTuple class that the backup's ``compiled`` returns.
    function : callable
        ``function(rule, arena, settings, trace, depth, length, tail) -> total cost``; see the module's docstring.
    """
    back_up.register(kind, function)


_TINY, _LOWEST, _HIGHEST = 1e-9, -700.0, 30.0  # of beta times gap: series below, log domain above


@dataclass(frozen=True, kw_only=True)
class SampledBackup(Backup):
    """Running ERM of the sampled costs-to-go, whatever actions were taken further down (the paper's)."""

    is_sampled: ClassVar[bool] = True

    def compiled(self, slots: Slots) -> SampledRule:
        """Return the kernel's form; it holds nothing."""
        return SampledRule(True)


class SampledRule(NamedTuple):
    """The backup as the kernel reads it."""

    is_sampled: bool


def sampled_backup(rule, arena, settings, trace, depth, length, tail):  # type: ignore[no-untyped-def]
    """Push the costs-to-go along the path; return the root's."""
    cost_to_go = tail
    for k in range(length - 1, -1, -1):
        cost_to_go = trace.path_costs[k] + settings.discount * cost_to_go
        unit = trace.path_units[k]
        count = arena.ints[4 * unit + COUNT] + 1
        arena.ints[4 * unit + COUNT] = count
        if count == 1:
            arena.floats[2 * unit] = cost_to_go
        trace.costs_to_go[k] = cost_to_go
        gap = cost_to_go - arena.floats[2 * unit]
        trace.scaled[k] = max(settings.betas[depth + k] * gap, _LOWEST)
        trace.shares[k] = 1.0 / count
    for k in range(0, length, LANES):
        log_means(trace.scaled, trace.shares, trace.logs, k)
    for k in range(length):
        unit = trace.path_units[k]
        scaled = trace.scaled[k]
        if abs(scaled) < _TINY:
            share, gap = trace.shares[k], trace.costs_to_go[k] - arena.floats[2 * unit]
            arena.floats[2 * unit] += share * gap * (1.0 + 0.5 * (1.0 - share) * scaled)
        elif scaled > _HIGHEST:
            value, cost, beta = arena.floats[2 * unit], trace.costs_to_go[k], settings.betas[depth + k]
            arena.floats[2 * unit] = merge_values(value, cost, trace.shares[k], beta)
        else:
            arena.floats[2 * unit] += trace.logs[k] / settings.betas[depth + k]
    return cost_to_go


register_backup(SampledRule, sampled_backup)


@dataclass(frozen=True, kw_only=True)
class OffPolicyBackup(Backup):
    """Running ERM of costs-to-go, cut at every action that is not its node's best.

    Parameters
    ----------
    least_visits : int, default 2
        How often an action must have been taken, at least, to be a node's best. More suits problems whose states hardly
        come back, as continuous ones.

    Examples
    --------
    >>> from tailwise import ErmMcts, OffPolicyBackup, RangeBonus, domains
    >>> search = ErmMcts(domains.make("mdp-4"), beta=0.5, backup=OffPolicyBackup(), bonus=RangeBonus(), seed=0)
    >>> search.plan(iterations=500).label
    'safe'
    """

    least_visits: int = 2

    def __post_init__(self) -> None:
        integer(self.least_visits, "least_visits", low=1)

    def compiled(self, slots: Slots) -> OffPolicyRule:
        """Return the kernel's form."""
        return OffPolicyRule(int(self.least_visits))


class OffPolicyRule(NamedTuple):
    """The backup as the kernel reads it."""

    least_visits: int


def off_policy_backup(rule, arena, settings, trace, depth, length, tail):  # type: ignore[no-untyped-def]
    """Push the costs-to-go along the path, each cut to the best value below; return the sampled total."""
    cost_to_go, total = tail, tail
    for k in range(length - 1, -1, -1):
        cost_to_go = trace.path_costs[k] + settings.discount * cost_to_go
        total = trace.path_costs[k] + settings.discount * total
        trace.costs_to_go[k] = cost_to_go
        unit = trace.path_units[k]
        count = arena.ints[4 * unit + COUNT] + 1
        arena.ints[4 * unit + COUNT] = count
        value = push_value(arena.floats[2 * unit], count, cost_to_go, settings.betas[depth + k])
        arena.floats[2 * unit] = value
        least = least_value(arena, trace.path_nodes[k], rule.least_visits)
        if least < value:
            cost_to_go = least
    return total


register_backup(OffPolicyRule, off_policy_backup)


@dataclass(frozen=True, kw_only=True)
class BellmanBackup(Backup):
    """ERM of cost plus the best value below, under the frequencies seen.

    Examples
    --------
    >>> from tailwise import BellmanBackup, ErmMcts, RangeBonus, domains
    >>> search = ErmMcts(domains.make("mdp-4"), beta=0.5, backup=BellmanBackup(), bonus=RangeBonus(), seed=0)
    >>> search.plan(iterations=500).label
    'safe'
    """

    node_statistics: ClassVar[dict[str, float]] = {"arrivals": 0.0, "arrival_cost": 0.0, "leaf_value": 0.0}
    action_statistics: ClassVar[dict[str, float]] = {"endings": 0.0, "ending_cost": 0.0}

    def compiled(self, slots: Slots) -> BellmanRule:
        """Return where the statistics are."""
        node, action = slots
        return BellmanRule(
            node["arrivals"], node["arrival_cost"], node["leaf_value"], action["endings"], action["ending_cost"]
        )


class BellmanRule(NamedTuple):
    """The backup as the kernel reads it: columns of the statistics."""

    arrivals: int
    arrival_cost: int
    leaf_value: int
    endings: int
    ending_cost: int


@inlined
def value_of(rule, arena, node):  # type: ignore[no-untyped-def]
    """Worth of a decision node: its best action's, or a leaf's own."""
    if arena.ints[4 * node + NUM_ACTIONS] == 0:
        return arena.statistics[node, rule.leaf_value]
    least = least_value(arena, node, 1)
    return arena.statistics[node, rule.leaf_value] if least == np.inf else least


@inlined
def action_value(rule, arena, unit, beta, discount, pending):  # type: ignore[no-untyped-def]
    """ERM of the outcomes seen of the action at ``unit``; ``pending`` is scratch for the walk over its children."""
    row = arena.statistics[unit]
    seen, value = row[rule.endings], row[rule.ending_cost]
    size = 0
    if arena.ints[4 * unit + CHILD] != 0:
        pending[0], size = arena.ints[4 * unit + CHILD], 1
    while size > 0:
        size -= 1
        node = pending[size]
        for side in (LEFT, RIGHT):
            if arena.ints[4 * node + side] != 0:
                pending[size] = arena.ints[4 * node + side]
                size += 1
        weight = arena.statistics[node, rule.arrivals]
        if weight > 0.0:
            cost = arena.statistics[node, rule.arrival_cost] + discount * value_of(rule, arena, node)
            seen += weight
            value = cost if weight == seen else merge_values(value, cost, weight / seen, beta)
    return value


def bellman_backup(rule, arena, settings, trace, depth, length, tail):  # type: ignore[no-untyped-def]
    """Evaluate the actions of the path anew, from its end; return the sampled total."""
    total = tail
    for k in range(length - 1, -1, -1):
        total = trace.path_costs[k] + settings.discount * total
        trace.costs_to_go[k] = total
        unit, child, beta = trace.path_units[k], trace.path_nodes[k + 1], settings.betas[depth + k]
        arena.ints[4 * unit + COUNT] += 1
        if child == 0:
            row, times, mean = unit, rule.endings, rule.ending_cost
            cost = trace.path_costs[k] + settings.discount * tail
        else:
            row, times, mean = child, rule.arrivals, rule.arrival_cost
            cost = trace.path_costs[k]
            if k == length - 1:
                arena.statistics[child, rule.leaf_value] = tail
        count = arena.statistics[row, times] + 1.0
        arena.statistics[row, times] = count
        arena.statistics[row, mean] = push_value(arena.statistics[row, mean], count, cost, beta)
        arena.floats[2 * unit] = action_value(rule, arena, unit, beta, settings.discount, trace.pending)
    return total


register_backup(BellmanRule, bellman_backup)


LANES = 8

_LOG2E, _LN2 = 1.4426950408889634, 0.6931471805599453
_LN2_HIGH, _LN2_LOW = 0.69314718036912381649, 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to an integer, held in the low bits
_ROUND_BITS = 0x4338000000000000
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_EXPM1 = [1.0 / math.factorial(n) for n in range(13, 1, -1)]
_ARTANH = [2.0 / n for n in range(21, 1, -2)]


def _emit(builder: ir.IRBuilder, scaled: ir.Value, share: ir.Value) -> ir.Value:
    """The instructions for vectors ``scaled`` = y and ``share`` = p."""
    floats, ints = ir.VectorType(ir.DoubleType(), LANES), ir.VectorType(ir.IntType(64), LANES)
    name = f"llvm.fmuladd.v{LANES}f64"
    fused = builder.module.globals.get(name)
    if fused is None:
        fused = ir.Function(builder.module, ir.FunctionType(floats, [floats] * 3), name)

    def real(x: float) -> ir.Value:
        return ir.Constant(floats, [x] * LANES)

    def whole(x: int) -> ir.Value:
        return ir.Constant(ints, [x] * LANES)

    def times_plus(a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        return builder.call(fused, [a, b, c])

    def polynomial(x: ir.Value, coefficients: list[float]) -> ir.Value:
        """Evaluate in pairs (Estrin): a third of the latency of Horner's chain."""
        terms = [real(coefficient) for coefficient in reversed(coefficients)]
        while len(terms) > 1:
            pairs = [times_plus(high, x, low) for low, high in zip(terms[::2], terms[1::2], strict=False)]
            terms = pairs + terms[2 * len(pairs) :]
            x = builder.fmul(x, x)
        return terms[0]

    rounded = times_plus(scaled, real(_LOG2E), real(_ROUND))
    k = builder.fsub(rounded, real(_ROUND))
    r = times_plus(k, real(-_LN2_LOW), times_plus(k, real(-_LN2_HIGH), scaled))
    power_bits = builder.shl(builder.add(builder.bitcast(rounded, ints), whole(1023)), whole(52))
    power = builder.bitcast(power_bits, floats)
    expm1 = times_plus(builder.fmul(r, r), polynomial(r, _EXPM1), r)
    expm1 = times_plus(power, expm1, builder.fsub(power, real(1.0)))
    z = builder.fmul(share, expm1)
    bits = builder.bitcast(builder.fadd(real(1.0), z), ints)
    j = builder.ashr(builder.sub(bits, whole(_SQRT_HALF_BITS)), whole(52))
    mantissa = builder.bitcast(builder.sub(bits, builder.shl(j, whole(52))), floats)
    f = builder.select(builder.icmp_signed("==", j, whole(0)), z, builder.fsub(mantissa, real(1.0)))
    j_real = builder.fsub(builder.bitcast(builder.add(j, whole(_ROUND_BITS)), floats), real(_ROUND))
    s = builder.fdiv(f, builder.fadd(real(2.0), f))
    square = builder.fmul(s, s)
    log_mantissa = times_plus(builder.fmul(s, square), polynomial(square, _ARTANH), builder.fadd(s, s))
    return times_plus(j_real, real(_LN2), log_mantissa)


if DISABLE_JIT:

    def log_means(scaled: Any, shares: Any, out: Any, first: int) -> None:
        """Fill ``out[first : first + 8]``; see the compiled form."""
        for k in range(first, first + LANES):
            out[k] = math.log1p(shares[k] * math.expm1(scaled[k]))

else:

    @intrinsic  # type: ignore[untyped-decorator, unused-ignore]
    def log_means(typing_context, scaled, shares, out, first):  # type: ignore[no-untyped-def]
        """Fill ``out[first : first + 8]`` from ``scaled`` and ``shares`` (float64, contiguous)."""

        def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            vector = ir.VectorType(ir.DoubleType(), LANES)

            def place(k: int) -> ir.Value:
                array = context.make_array(signature.args[k])(context, builder, args[k])
                return builder.bitcast(builder.gep(array.data, [args[3]]), vector.as_pointer())

            loads = [builder.load(place(k)) for k in (0, 1)]
            for load in loads:
                load.align = 8  # arrays of doubles promise no more
            builder.store(_emit(builder, *loads), place(2)).align = 8
            return context.get_dummy_value()

        return types.void(scaled, shares, out, first), codegen
