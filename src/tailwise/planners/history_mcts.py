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
import time
from collections.abc import Hashable
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from tailwise._arrays import Floats, Ints
from tailwise._jit import kernel_for
from tailwise._random import Seed, stream_words
from tailwise._validate import file_path, integer, real
from tailwise.bindings.hidden import bind_hidden
from tailwise.bindings.intern import require_portable
from tailwise.bindings.kernel_model import FULL
from tailwise.errors import OptionError, StateError
from tailwise.models.contract import short, state_fault
from tailwise.models.partly_observed import drawn
from tailwise.models.pomdp_table import PomdpTable
from tailwise.models.simulator import action_label, model_name
from tailwise.planners.hidden import HiddenPlanner
from tailwise.risk import ERM, erm
from tailwise.risk.measures import Interval
from tailwise.search.action_rows import ActionRow
from tailwise.search.histories import (
    MOST_ROWS,
    NODE_LIMIT,
    NODES,
    ROOT,
    Histories,
    Settings,
    Trace,
    child_at,
    enlarged,
    joined,
    new_histories,
    root_actions,
    search_histories,
    subtree,
    try_roll_outs,
    viewed,
)
from tailwise.search.plan import StopReason
from tailwise.search.saving import save_search

_OWN = "_step", "_done", "_notes", "_is_loose", "_seed"  # what a file keeps as it is
_UNCHOSEN = -2
_TRIALS = 64  # roll-outs of each way to play on, before one is chosen
_MOST_TRIALS = 4096  # of all ways together, where they are so many that each still has its 4
_MOST_COPIED = 16_384  # nodes; of a larger tree the root is moved, and what it left behind is freed with the next room
_BYTE_SECONDS = 1e-9  # that a byte takes to be copied to new memory
_ATTEMPTS = 50  # draws for each particle that is wanted after a step


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

    @cached_property
    def sums(self) -> Floats:
        """Running sums of the tilted weights."""
        logs = np.array(self.log_weights)
        return np.cumsum(np.exp(logs - logs.max()))

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


def _drawn_place(sums: Floats, rng: np.random.Generator) -> int:
    return min(int(np.searchsorted(sums, rng.random() * sums[-1], side="right")), len(sums) - 1)


_Particles: TypeAlias = tuple[list[Any], list[float], list[float]]


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
    _is_loose = False  # whether the tree holds what the root left behind
    meaning = "nothing: none is known for a search over histories"

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
        self._powers = [float(self.model.discount) ** h for h in range(int(self.model.horizon) + 1)]
        self._tree = new_histories(256, 64 * len(self._actions))
        self._binding = bind_hidden(self.model, self._rng)
        self._stream = stream_words(self._rng)
        self._set_root(_UNCHOSEN)

    def _set_root(self, repeated: int) -> None:
        horizon = int(self.model.horizon)
        self._trace = Trace(np.zeros((horizon, 3), np.int64), np.zeros((horizon, 2)), np.zeros(2, np.int64))
        self._settings = Settings(
            betas=self.beta * np.array(self._powers[:horizon]), discount=float(self.model.discount),
            num_actions=len(self._actions), step=self._step, exploration=self._exploration,
            widening=np.array(self._widen), weighed=self._density is not None, repeated=repeated,
            sums=self.belief.sums if self._step else np.empty(0),
            max_nodes=min(self._room, MOST_ROWS // len(self._actions)),
        )  # fmt: skip
        if self._step:
            self._binding.set_particles(self.belief.particles)

    def __getstate__(self) -> dict[str, Any]:
        """Return all but what is bound to this process's memory."""
        kept = {name: value for name, value in vars(self).items() if name not in ("_binding", "_stream")}
        return {**kept, "keys": self._binding.keys}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Bind a copy."""
        keys = state.pop("keys")
        vars(self).update(state)
        self._binding, self._stream = bind_hidden(self.model, self._rng), stream_words(self._rng)
        self._binding.set_keys(keys)
        self._tree = joined(self._tree)
        self._set_root(self._settings.repeated)

    def state_dict(self) -> dict[str, object]:
        """Return all that was found, and where the random stream stands; see :class:`tailwise.search.AnytimeSearch`."""
        known = self._known
        return {
            "made_as": (self.kind, self.reason), "stream": self._stream.copy(), "keys": list(self._binding.keys),
            "belief": None if known is None else (known.particles, known.log_weights, known.plain),
            "tree": ([self._tree.values.copy(), self._tree.sums.copy()], self._tree.used.copy()),
            "counts": self._trace.counts.copy(), "repeated": self._settings.repeated,
            "own": {name: getattr(self, name) for name in _OWN},
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Know what another search of the same parameters knew: what its :meth:`state_dict` returned, taken over."""
        self.kind, self.reason = state["made_as"]
        vars(self).update(state["own"])
        self._known = None if state["belief"] is None else ParticleBelief(*state["belief"])
        self._tree = viewed(*state["tree"])
        self._binding.set_keys({seen: k for k, seen in enumerate(state["keys"])})
        self._stream[:] = state["stream"]
        self._set_root(state["repeated"])
        self._trace.counts[:] = state["counts"]

    def require_portable(self) -> None:
        """Raise ``SimulatorError`` if a file cannot hold a hidden state or an observation; names it."""
        states = [] if self._known is None else self._known.particles
        require_portable([*states, *self._binding.keys], 0, self.model)

    def save(self, path: str | Path) -> Path:
        """Write the search to a file, for :func:`tailwise.load_search`; see :meth:`tailwise.TreeSearch.save`."""
        target = file_path(path)
        with self._turn:
            save_search(self, target)
        return target

    def _run(self, count: int) -> StopReason | None:
        if self._settings.repeated == _UNCHOSEN:
            self._binding.try_out(0 if self._step else -1, self._step)
            self._settings = self._settings._replace(repeated=self._choose_roll_outs())
        kind: Any = type(self._binding.data)
        search = kernel_for(search_histories, kind)
        target = self._done + count
        while self._done < target:
            before = int(self._trace.counts[0])
            with self._binding.running():
                status = search(
                    self._binding.data, self._tree, self._settings, self._trace, self._stream, target - self._done
                )
            self._done += int(self._trace.counts[0]) - before
            if status in (NODE_LIMIT, FULL):
                stopped = self._make_room(enlarge=status == FULL)
                if stopped is not None:
                    return stopped
            elif status < 0:
                self._binding.fail(0, -1, self._step)
        return None

    def _make_room(self, *, enlarge: bool) -> StopReason | None:
        """Free what the root left behind, or take more memory; if that would be late, the next call begins with it."""
        tree = self._tree
        late = time.perf_counter() + _BYTE_SECONDS * tree.num_bytes > self._deadline
        if late and self._done > self._before:
            return StopReason.SECONDS
        if self._is_loose:
            self._tree, self._is_loose = subtree(tree, int(tree.used[ROOT]), len(self._actions)), False
        elif enlarge:
            self._tree = enlarged(tree, len(self._actions))
        else:
            return StopReason.MAX_NODES
        return None

    def _choose_roll_outs(self) -> int:
        """Return the place of the action to repeat in roll-outs, or -1 for random ones."""
        ways = 1 + len(self._actions)
        subtree(new_histories(1, 1), 0, 1)  # compiled now, not by the first step that is taken
        losses = np.empty((ways, max(4, min(_TRIALS, _MOST_TRIALS // ways))))
        kind: Any = type(self._binding.data)
        with self._binding.running():
            status = kernel_for(try_roll_outs, kind)(
                self._binding.data, self._settings, self._trace, self._stream, losses
            )
        if status < 0:
            self._binding.fail(0, -1, self._step)
        return int(np.argmin([erm(row, self.root_beta) for row in losses])) - 1

    def _follow(self, action: Any, observation: Any, cost: float | None) -> None:
        place, action, observation = self._placed(action, observation)
        if state_fault(observation):
            raise StateError(f"the observation {state_fault(observation)}")
        find = self._fitting_entries if isinstance(self.model, PomdpTable) else self._fitting
        particles, logs, plain = find(action, observation, cost)
        if not particles:
            particles, logs, plain = self._renewed(action, observation)
        elif len(particles) < self._wanted // 10:
            self._notes.append(f"step {self._step + 1}: few hidden states fit what was observed: {len(particles)}")
        cost_seen = bool(getattr(self.model, "cost_seen", False))
        seen = (observation, self._sign * cost) if cost_seen and cost is not None else observation
        self._tree = self._below(place, self._binding.keys.get(seen, -1))
        self._known = ParticleBelief(particles, logs, plain)

    def _fitting(self, action: Any, observation: Any, cost: float | None) -> _Particles:
        """Return particles after a step, with the logarithms of their weights, tilted and plain."""
        old, beta = self.belief, self.root_beta
        particles, logs, plain = list[Any](), list[float](), list[float]()
        seen_cost = bool(getattr(self.model, "cost_seen", False))
        flat = np.array(old.plain) - np.array(old.log_weights)
        for _ in range(self._wanted * _ATTEMPTS):
            k = _drawn_place(old.sums, self._rng)
            following, paid, done, seen = drawn(self.model, old.particles[k], action, self._rng)
            if done or (seen_cost and cost is not None and abs(paid - cost) > 1e-9 * max(abs(paid), abs(cost))):
                continue
            share = 0.0
            if self._density is not None:
                chance = self._likelihood(old.particles[k], action, following, observation)
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
        return particles, logs, plain

    def _likelihood(self, *drawn_and_seen: Any) -> float:
        try:
            return float(self._density(*drawn_and_seen))  # type: ignore[misc]
        except Exception as error:
            told = ", ".join(map(short, drawn_and_seen))
            raise StateError(
                f"likelihood({told}) of {model_name(self.model)} raised {type(error).__name__}: {error}; is "
                f"{short(drawn_and_seen[-1])} an observation of the model?"
            ) from error

    def _fitting_entries(self, action: int, observation: int, cost: float | None) -> _Particles:
        """Return the same of a table: many draws at once."""
        model: PomdpTable = self.model
        table, old = model.table, self.belief
        rows = np.repeat(np.arange(table.num_rows), np.diff(table.outcome_offsets))
        fits = (model.observed == observation) & ~table.done
        if model.cost_seen and cost is not None:
            paid = self._sign * cost
            fits &= np.abs(table.losses - paid) <= 1e-9 * np.maximum(np.abs(table.losses), abs(paid))
        states, sums, left = np.array(old.particles), old.sums, self._wanted
        picked, taken = list[Ints](), list[Ints]()
        for _ in range(_ATTEMPTS):
            places = np.searchsorted(sums, self._rng.random(self._wanted) * sums[-1], side="right")
            places = np.minimum(places, sums.size - 1)
            wanted = states[places] * model.num_actions + action + self._rng.random(self._wanted)
            entries = np.minimum(np.searchsorted(rows + table.data.cumulative, wanted, side="right"), rows.size - 1)
            kept = np.flatnonzero(fits[entries])[:left]
            picked.append(places[kept])
            taken.append(entries[kept])
            left -= kept.size
            if left <= 0:
                break
        places, entries = np.concatenate(picked), np.concatenate(taken)
        flat = np.array(old.plain)[places] - np.array(old.log_weights)[places]
        logs = self.root_beta * table.losses[entries]
        return table.next_states[entries].tolist(), logs.tolist(), flat.tolist()

    def _below(self, place: int, key: int) -> Histories:
        """Return the tree below what was done and observed, in place if it is large; a new one where that is new."""
        node = child_at(self._tree, place, key)
        self._is_loose = node >= 0 and self._tree.used[NODES] > _MOST_COPIED
        if node < 0:
            return new_histories(256, 64 * len(self._actions))
        if not self._is_loose:
            return subtree(self._tree, node, len(self._actions))
        self._tree.used[ROOT] = node
        return self._tree

    def advance(self, action: Any, observation: Any, cost: float | None = None) -> None:
        """Move the root on; see :meth:`HiddenPlanner.advance`."""
        super().advance(action, observation, cost)
        self._set_root(self._settings.repeated)

    def _renewed(self, action: Any, observation: Any) -> tuple[list[Any], list[float], list[float]]:
        """Return particles where none fits what was observed: what the action leads to, whatever was observed."""
        self._notes.append(
            f"step {self._step + 1}: no hidden state of {self._wanted} fits the observation {short(observation, 40)}; "
            "they were drawn anew, as if nothing had been observed"
        )
        old, particles = self.belief, list[Any]()
        for _ in range(self._wanted * _ATTEMPTS):
            following, _, done, _ = drawn(
                self.model, old.particles[_drawn_place(old.sums, self._rng)], action, self._rng
            )
            if not done:
                particles.append(following)
            if len(particles) >= self._wanted:
                break
        if not particles:
            raise StateError(
                f"{model_name(self.model)}: every episode ends with {short(action)}; nothing is observed after"
            )
        return particles, [0.0] * len(particles), [0.0] * len(particles)

    def _rows(self) -> tuple[tuple[ActionRow, ...], int, float, dict[str, Any]]:
        visits, values = root_actions(self._tree, len(self._actions))
        total = max(1, int(visits.sum()))
        unknown = Interval(-math.inf, math.inf)
        rows = tuple(
            ActionRow(
                action, action_label(self.model, action, None), int(count), int(count) / total,
                self._sign * float(value), *(math.nan,) * 4, unknown,
            )
            for action, count, value in zip(self._actions, visits, values, strict=True)
        )  # fmt: skip
        best = int(np.lexsort((values, -visits))[0])
        more = {
            "objective": ERM(self.root_beta), "nodes": int(self._tree.used[NODES]), "bytes": self._tree.num_bytes,
            "simulator_steps": int(self._trace.counts[1]),
        }  # fmt: skip
        self._trace.counts[1] = 0
        return rows, best, rows[best].erm, more
