r"""Tree search over histories of a simulator whose state is not seen.

A node is a history: what was done and observed since the root. An iteration draws a hidden state from the particles of
the root and plays it down the tree. Its sample carries the weight ``exp(beta * what it paid since the root)``: where
costs are not seen, two samples of one history have paid differently, and risk counts them so (the belief tilted by what
was paid, :mod:`tailwise.exact.alpha_vectors`, from samples). Each action of a node keeps, for each observation, two
sums: of the weights W, and of the weights times the utility of the cost just paid, which give the ERM C of that cost.
With V the value of the node that follows,

    Q(a) = ERM at beta_h of { C(o) + discount V(o) } under the weights W(o),      V = the least Q of what was tried.

A node that is new is valued by a roll-out that repeats one action, or plays at random: whichever had the least ERM from
the root. (What plays far worse than need be would weigh on every value above, exponentially.) Actions are chosen by Q
minus the project's polynomial bonus ``constant * range * N^(1/4) / n^(1/2)``.

Where observations are continuous, an action keeps few of them (progressive widening), and what is new is taken for one
that is there; a model that has ``likelihood(state, action, next_state, observation)`` has such samples weighed by it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

import numpy as np

from tailwise._random import Seed
from tailwise._validate import integer, real
from tailwise.errors import OptionError, StateError
from tailwise.models.partly_observed import drawn
from tailwise.models.simulator import action_label, model_name, short
from tailwise.planners.hidden import HiddenPlanner
from tailwise.risk import ERM, erm
from tailwise.risk.measures import Interval
from tailwise.search.action_rows import ActionRow
from tailwise.search.plan import StopReason

_REBASE = 1.0
_FAR = 600.0
_UNCHOSEN = -2
_TRIALS = 64  # roll-outs of each way to play on, before one is chosen
_MOST_TRIALS = 4096  # of all ways together, where they are so many that each still has its 4
_ATTEMPTS = 50  # draws for each particle that is wanted after a step
_NODE_BYTES = 900


class ParticleBelief:
    """What is known of the hidden state at the root: states, their weights, and the weights tilted by what was paid.

    Attributes
    ----------
    particles : list
        Hidden states, drawn from what is known.
    log_weights : list of float
        Logarithms of their weights, tilted by what each paid unseen.
    plain : list of float
        Logarithms of their weights without the tilt.
    """

    def __init__(self, particles: list[Any], log_weights: list[float], plain: list[float]) -> None:
        self.particles, self.log_weights, self.plain = particles, log_weights, plain

    @property
    def probabilities(self) -> dict[Hashable, float]:
        """The belief: each state with its probability."""
        return _shares(self.particles, self.plain)

    @property
    def tilted(self) -> dict[Hashable, float]:
        """Its twin that decides: tilted by what was paid unseen."""
        return _shares(self.particles, self.log_weights)

    def __len__(self) -> int:
        return len(self.particles)

    def to_dict(self) -> dict[str, object]:
        """Return it as plain values, ready for ``json.dumps``."""
        twins = {"probabilities": self.probabilities, "tilted": self.tilted}
        return {"particles": len(self)} | {
            name: [[str(state), share] for state, share in found.items()] for name, found in twins.items()
        }

    def __repr__(self) -> str:
        likely = sorted(self.probabilities.items(), key=lambda item: -item[1])
        said = ", ".join(f"{short(state, 30)}: {share:.3g}" for state, share in likely[:4])
        return f"belief ({said}{f' and {len(likely) - 4} more' if len(likely) > 4 else ''}; {len(self)} particles)"


def _shares(states: list[Any], logs: list[float]) -> dict[Hashable, float]:
    top = max(logs)
    found: dict[Hashable, float] = {}
    for state, log in zip(states, logs, strict=True):
        found[state] = found.get(state, 0.0) + math.exp(log - top)
    total = sum(found.values())
    return {state: share / total for state, share in found.items()}


class _Child:
    """What followed an action with one observation: the sum of weights (scaled), the ERM of the cost, and the node."""

    __slots__ = ("count", "loss", "node", "reference", "utility", "weight")

    def __init__(self, node: _Node | None) -> None:
        self.node, self.count, self.weight, self.reference, self.utility, self.loss = node, 0, 0.0, 0.0, 0.0, 0.0

    def add(self, weight: float, loss: float, beta: float) -> None:
        """Take in a cost with its weight: a running mean of u_beta about a reference, which moves up with the costs."""
        if self.weight == 0.0:
            self.reference, self.utility = loss, 0.0
        y = beta * (loss - self.reference)
        if y > _REBASE:
            self.utility = (math.expm1(-y) + beta * self.utility * math.exp(-y)) / beta
            self.reference, y = loss, 0.0
        self.count += 1
        self.weight += weight
        u = math.expm1(y) / beta if abs(y) > 1e-16 else loss - self.reference
        self.utility += weight / self.weight * (u - self.utility) if self.weight > 0.0 else 0.0
        mean = self.utility
        self.loss = self.reference + (math.log1p(max(beta * mean, -1.0 + 1e-300)) / beta if beta else mean)

    @property
    def value(self) -> float:
        """What is expected to follow."""
        return 0.0 if self.node is None else self.node.value


class _Action:
    """An action of a node: its children by observation, with the logarithm that their weights are scaled by."""

    __slots__ = ("children", "count", "scale", "value")

    def __init__(self) -> None:
        self.children: dict[Any, _Child] = {}
        self.count, self.scale, self.value = 0, -math.inf, math.nan

    def add(self, child: _Child, log_weight: float, loss: float, beta: float) -> None:
        """Take in one sample."""
        if log_weight > self.scale + 30.0:
            factor = math.exp(max(self.scale - log_weight, -_FAR)) if self.scale > -math.inf else 0.0
            for one in self.children.values():
                one.weight *= factor
            self.scale = log_weight
        self.count += 1
        child.add(max(math.exp(max(log_weight - self.scale, -_FAR)), 1e-250), loss, beta)

    def update(self, beta: float, discount: float) -> None:
        """Put the value together from the children's."""
        parts = [(one.weight, one.loss + discount * one.value) for one in self.children.values() if one.weight > 0.0]
        if len(parts) == 1:
            self.value = parts[0][1]
            return
        total = sum(weight for weight, _ in parts)
        mean = sum(weight * value for weight, value in parts) / total
        spread = max(value for _, value in parts) - min(value for _, value in parts)
        if abs(beta) * spread < 0.5:
            part = sum(weight * math.expm1(beta * (value - mean)) for weight, value in parts) / total
            self.value = mean + (math.log1p(part) / beta if beta else 0.0)
            return
        top = max(beta * value for _, value in parts)
        self.value = (top + math.log(sum(w * math.exp(max(beta * v - top, -_FAR)) for w, v in parts) / total)) / beta


class _Node:
    """A history: its actions, once it was visited twice, and its value."""

    __slots__ = ("actions", "high", "low", "roll", "value", "visits")

    def __init__(self) -> None:
        self.actions: list[_Action] | None = None
        self.visits, self.value, self.low, self.high = 0, 0.0, math.inf, -math.inf
        self.roll = _Action()


class HistoryMcts(HiddenPlanner):
    """Search over histories by sampling, for any simulator whose state is not seen; closed loop by ``advance``.

    Parameters
    ----------
    model : PartlyObserved or PomdpTable
        The problem.
    beta : float
        Risk level at step 0.
    seed : optional
        Source of all randomness.
    exploration : float, default 0.3
        The bonus in units of the range of totals seen at a node.
    particles : int, default 2,000
        Hidden states that stand for what is known after a step.
    widening : tuple of float, default (4, 0.5)
        An action that was tried n times keeps at most ``k * n**alpha`` observations.
    max_nodes : int, default 2,000,000
        Most histories that are kept.

    Notes
    -----
    An outcome too rare to be drawn is not known to it. Where particles run out after a step, they are drawn anew from
    all that led there, or at last from where the simulator says that an episode begins; a note of the plan says so.

    Examples
    --------
    >>> from tailwise import domains
    >>> from tailwise.planners import HistoryMcts
    >>> search = HistoryMcts(domains.make("light-dark"), 0.1, seed=0)
    >>> plan = search.plan(iterations=300)
    >>> plan.rows[0].visits + sum(row.visits for row in plan.rows[1:])
    300
    """

    method = "search over histories"
    _known: ParticleBelief | None = None
    meaning = "nothing: no interval is known of a search over histories"

    def __init__(
        self,
        model: Any,
        beta: float,
        *,
        seed: Seed = None,
        exploration: float = 0.3,
        particles: int = 2000,
        widening: tuple[float, float] = (4.0, 0.5),
        max_nodes: int = 2_000_000,
    ) -> None:
        self.require_unseen(model)
        self._exploration = real(exploration, "exploration", low=0.0)
        self._wanted = integer(particles, "particles", low=1)
        if not isinstance(widening, (tuple, list)) or len(widening) != 2:
            raise OptionError(f"widening must be two numbers (k, alpha), not {widening!r}")
        self._widen = real(widening[0], "widening[0]", low=1.0), real(widening[1], "widening[1]", low=0.0, high=1.0)
        self._room = integer(max_nodes, "max_nodes", low=1)
        self._end = getattr(model, "terminal_cost", None)
        self._sign = 1.0 if model.sense == "cost" else -1.0
        self._density = getattr(model, "likelihood", None)
        super().__init__(model, beta, seed=seed)

    @property
    def belief(self) -> ParticleBelief:
        """What is known at the root: particles, ``probabilities``, and the twin that decides, ``tilted``."""
        if self._known is None:
            states = [self.model.sample_start(self._rng) for _ in range(self._wanted)]
            self._known = ParticleBelief(states, [0.0] * len(states), [0.0] * len(states))
        return self._known

    def _begin(self) -> None:
        self._known = None
        self._repeated = _UNCHOSEN  # place of the action that roll-outs repeat, -1: random ones
        self._root, self._count, self._steps = _Node(), 1, 0
        self._powers = [float(self.model.discount) ** h for h in range(int(self.model.horizon) + 1)]

    # ------------------------------------------------------------ an iteration

    def _run(self, count: int) -> StopReason | None:
        if self._repeated == _UNCHOSEN:
            self._repeated = self._choose_roll_outs()
        for _ in range(count):
            if self._count >= self._room:
                return StopReason.MAX_NODES
            self._iterate()
            self._done += 1
        return None

    def _drawn_root(self) -> tuple[Any, float]:
        """Draw a hidden state; at a root behind some steps, by its tilted weight."""
        if self._step == 0:
            return self.model.sample_start(self._rng), 0.0
        return self.belief.particles[self._draw(self._sums)], 0.0

    def _draw(self, sums: Any) -> int:
        return min(int(np.searchsorted(sums, self._rng.random() * sums[-1], side="right")), len(sums) - 1)

    @property
    def _sums(self) -> Any:
        belief = self.belief
        found = getattr(belief, "sums", None)
        if found is None:
            logs = np.array(belief.log_weights)
            found = belief.sums = np.cumsum(np.exp(logs - logs.max()))  # type: ignore[attr-defined]
        return found

    def _iterate(self) -> None:
        model, discount, horizon = self.model, float(self.model.discount), int(self.model.horizon)
        state, log_weight = self._drawn_root()
        node, path = self._root, list[tuple[_Node, _Action, float]]()
        total = 0.0
        for h in range(self._step, horizon):
            if node.actions is None:
                if node.visits == 0 and node is not self._root:
                    break
                node.actions = [_Action() for _ in self._actions]
            place = self._chosen(node)
            action, beta = node.actions[place], self.beta * self._powers[h]
            following, cost, done, seen = drawn(model, state, self._actions[place], self._rng)
            self._steps += 1
            loss = self._sign * cost
            if h + 1 == horizon and not done and self._end is not None:
                loss += discount * self._sign * float(self._end(following))
            total += self._powers[h - self._step] * loss
            is_last = done or h + 1 == horizon
            key = None if is_last else (seen, loss) if getattr(model, "cost_seen", False) else seen
            if is_last:
                key = _END
            child, extra = self._child(action, key, state, place, following, is_last=is_last)
            action.add(child, log_weight, loss, beta)
            path.append((node, action, total))
            log_weight += beta * loss + extra
            state = following
            if is_last:
                node = _DONE
                break
            assert child.node is not None
            node = child.node
        else:
            node = _DONE
        if node is not _DONE:
            rest = self._rolled_out(state, self._step + len(path), self._repeated)
            h = self._step + len(path)
            beta = self.beta * self._powers[h]
            fake = node.roll.children.setdefault(None, _Child(None))
            node.roll.add(fake, log_weight, rest, beta)
            node.value = fake.loss
            total += self._powers[len(path)] * rest
            node.visits += 1
        for k in range(len(path) - 1, -1, -1):
            one, action, _ = path[k]
            one.visits += 1
            action.update(self.beta * self._powers[self._step + k], discount)
            before = path[k - 1][2] if k else 0.0
            to_go = (total - before) / self._powers[k]
            one.low, one.high = min(one.low, to_go), max(one.high, to_go)
            assert one.actions is not None
            one.value = min(action.value for action in one.actions if action.count)

    def _chosen(self, node: _Node) -> int:
        assert node.actions is not None
        for place, action in enumerate(node.actions):
            if action.count == 0:
                return place
        width = max(node.high - node.low, 0.0) if node.high > -math.inf else 0.0
        growth = self._exploration * width * float(node.visits) ** 0.25
        return min(
            range(len(node.actions)),
            key=lambda a: node.actions[a].value - growth / math.sqrt(node.actions[a].count),  # type: ignore[index]
        )

    def _child(
        self, action: _Action, key: Any, state: Any, place: int, following: Any, *, is_last: bool
    ) -> tuple[_Child, float]:
        """Return the child of an observation, and the logarithm of what a sample weighs that is taken for another's."""
        found = action.children.get(key)
        if found is not None:
            return found, self._fits(state, place, following, key, is_last=is_last)
        k, alpha = self._widen
        if is_last or len(action.children) < max(1.0, k * float(action.count + 1) ** alpha):
            found = action.children[key] = _Child(None if is_last else _Node())
            self._count += 1
            return found, self._fits(state, place, following, key, is_last=is_last)
        keys = [one for one in action.children if one is not _END]
        counts = np.cumsum([action.children[one].count for one in keys])
        near = keys[self._draw(counts)]
        return action.children[near], self._fits(state, place, following, near, is_last=is_last)

    def _fits(self, state: Any, place: int, following: Any, key: Any, *, is_last: bool) -> float:
        """Return the logarithm of how well a sample fits the observation of the child that it is counted in."""
        if self._density is None or is_last:
            return 0.0
        seen = key[0] if getattr(self.model, "cost_seen", False) else key
        share = float(self._density(state, self._actions[place], following, seen))
        return math.log(share) if share > 0.0 else -_FAR

    def _choose_roll_outs(self) -> int:
        """Return the place of the action to repeat in roll-outs, or -1 for random ones."""
        ways: list[int] = [-1, *range(len(self._actions))]
        trials = max(4, min(_TRIALS, _MOST_TRIALS // len(ways)))
        losses = np.array(
            [[self._rolled_out(self._drawn_root()[0], self._step, way) for _ in range(trials)] for way in ways]
        )
        return ways[int(np.argmin([erm(row, self.root_beta) for row in losses]))]

    def _rolled_out(self, state: Any, h: int, repeated: int) -> float:
        total, factor, horizon = 0.0, 1.0, int(self.model.horizon)
        for step in range(h, horizon):
            action = self._actions[repeated if repeated >= 0 else int(self._rng.integers(len(self._actions)))]
            state, cost, done, _ = drawn(self.model, state, action, self._rng)
            self._steps += 1
            total += factor * self._sign * cost
            if done:
                return total
            factor *= float(self.model.discount)
            if step + 1 == horizon and self._end is not None:
                total += factor * self._sign * float(self._end(state))
        return total

    # --------------------------------------------------------------- moving on

    def _follow(self, action: Any, observation: Any, cost: float | None) -> None:
        find_action = getattr(self.model, "find_action", None)
        if find_action is not None:
            action, observation = find_action(action), self.model.find_observation(observation)
        if action not in self._actions:
            raise StateError(f"there is no action {action!r} in {model_name(self.model)}; there are {self._actions}")
        place = self._actions.index(action)
        old, beta = self.belief, self.beta * self._powers[self._step]
        particles, logs, plain = list[Any](), list[float](), list[float]()
        seen_cost = bool(getattr(self.model, "cost_seen", False))
        tilted_sums = self._sums
        flat = np.array(old.plain) - np.array(old.log_weights)
        for _ in range(self._wanted * _ATTEMPTS):
            k = self._draw(tilted_sums)
            following, paid, done, seen = drawn(self.model, old.particles[k], action, self._rng)
            if done or (seen_cost and cost is not None and abs(paid - cost) > 1e-9 * max(abs(paid), abs(cost))):
                continue
            share = 0.0
            if self._density is not None:
                chance = float(self._density(old.particles[k], action, following, observation))
                if not chance > 0.0:
                    continue
                share = math.log(chance)
            elif seen != observation:
                continue
            particles.append(following)
            logs.append(share + beta * self._sign * paid)
            plain.append(share + float(flat[k]))
            if len(particles) >= self._wanted:
                break
        if not particles:
            particles, logs, plain = self._renewed(action, observation)
        elif len(particles) < self._wanted // 10:
            self._notes.append(f"step {self._step + 1}: few hidden states fit what was observed: {len(particles)}")
        following_node = None
        if self._root.actions is not None:
            key = (observation, self._sign * cost) if seen_cost and cost is not None else observation
            child = self._root.actions[place].children.get(key)
            following_node = None if child is None else child.node
        self._root = _Node() if following_node is None else following_node
        self._count = 1 if following_node is None else _size(following_node)
        self._known = ParticleBelief(particles, logs, plain)

    def _renewed(self, action: Any, observation: Any) -> tuple[list[Any], list[float], list[float]]:
        """Return particles where none fits what was observed: what the action leads to, whatever was observed."""
        self._notes.append(
            f"step {self._step + 1}: no hidden state of {self._wanted} fits the observation {short(observation, 40)}; "
            "they were drawn anew, as if nothing had been observed"
        )
        old, particles = self.belief, list[Any]()
        for _ in range(self._wanted * _ATTEMPTS):
            following, _, done, _ = drawn(self.model, old.particles[self._draw(self._sums)], action, self._rng)
            if not done:
                particles.append(following)
            if len(particles) >= self._wanted:
                break
        if not particles:
            raise StateError(
                f"{model_name(self.model)}: every episode ends with {short(action)}; nothing is observed after"
            )
        return particles, [0.0] * len(particles), [0.0] * len(particles)

    # ---------------------------------------------------------------- the plan

    def _rows(self) -> tuple[tuple[ActionRow, ...], int, float, dict[str, Any]]:
        root = self._root
        if root.actions is None:
            root.actions = [_Action() for _ in self._actions]
        total = max(1, sum(action.count for action in root.actions))
        unknown = Interval(-math.inf, math.inf)
        rows = tuple(
            ActionRow(
                self._actions[a], action_label(self.model, self._actions[a], None), action.count, action.count / total,
                self._sign * action.value, *(math.nan,) * 4, unknown,
            )
            for a, action in enumerate(root.actions)
        )  # fmt: skip
        best = max(
            range(len(rows)), key=lambda a: (rows[a].visits, -self._sign * rows[a].erm if rows[a].visits else -math.inf)
        )
        more = {
            "objective": ERM(self.root_beta), "nodes": self._count, "bytes": self._count * _NODE_BYTES,
            "simulator_steps": self._steps,
        }  # fmt: skip
        self._steps = 0
        return rows, best, rows[best].erm, more


def _size(node: _Node) -> int:
    pending, count = [node], 0
    while pending:
        one = pending.pop()
        count += 1
        for action in one.actions or ():
            pending.extend(child.node for child in action.children.values() if child.node is not None)
    return count


_END = object()
_DONE = _Node()
