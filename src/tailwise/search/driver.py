"""The anytime driver: runs the compiled kernel in chunks, grows the tree, keeps it from step to step.

The tree survives between calls of ``plan``, and ``advance`` keeps the part below the
step that was really taken, at the right depth and so at the right risk level ``beta_h``.

With ``plan(threads=)`` further trees grow beside the first (*root parallelism*): each is a search of its own, with a
stream of its own, and a plan merges what all know of the root (:mod:`tailwise.search.action_rows`).
"""

from __future__ import annotations

import copy
import dataclasses
import time
import weakref
from collections.abc import Hashable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import DISABLE_JIT, kernel_for
from tailwise._random import Seed, generator, seed_sequence
from tailwise._values import leaves, refilled
from tailwise.bindings import BudgetSpentError, kernel_model
from tailwise.bindings.options import WEIGHED
from tailwise.risk.entropic import weighted_erm
from tailwise.search import kernels
from tailwise.search.action_rows import Findings, RootStatistics, make_rows, merged, sampled_interval
from tailwise.search.anytime_search import AnytimeSearch
from tailwise.search.options import SearchOptions, compile_options
from tailwise.search.plan import Plan, StopReason
from tailwise.search.plan_words import SAMPLING_INTERVAL
from tailwise.search.prior import Guided
from tailwise.search.tree import Limits, Tree
from tailwise.search.views import NodeView, TreeReader

_NO_INTERVAL = "nothing: with widening the sampled totals repeat"
_BRACKET = (
    "the optimal ERM after the action, between two estimates: its value here, which is too good as the least of many "
    "estimates is (and can be better than the mean at a beta above 0), and the ERM of the totals as sampled, which "
    "exploration makes too bad; as if samples were independent"
)
_MOST_SAMPLES, _ALL_SAMPLES, _FEWEST_SAMPLES = 16_384, 65_536, 64  # kept per action, in all, per action

_compiled_kinds: set[tuple[type, ...]] = set()


class TreeSearch(AnytimeSearch[Plan]):
    """A search tree over a model, rooted at a state and a step; see also :class:`tailwise.search.AnytimeSearch`.

    ``advance`` keeps the subtree below the step that was taken, where there is one. It copies a small one; a large one
    stays where it is, and the search takes the memory of what was left behind before it asks for more.

    Parameters
    ----------
    model : TabularMDP or simulator
        The problem.
    options : SearchOptions
        How to search.
    seed : None, int, SeedSequence or Generator
        Source of all randomness. Same seed, same versions of tailwise and numba: same result, bit for bit.

    Examples
    --------
    >>> from tailwise import LogBonus, SearchOptions, TreeSearch, domains
    >>> search = TreeSearch(domains.make("mdp-4"), SearchOptions(bonus=LogBonus()), seed=0)
    >>> plan = search.plan(iterations=1000)
    >>> plan.label, search.root.action("risky").visits == plan.row("risky").visits
    ('risky', True)
    """

    options: SearchOptions

    def __init__(self, model: Any, options: SearchOptions, *, seed: Seed = None) -> None:
        self.model, self.options = model, options
        self._start(seed)
        self._settings, self._rules, self._limits = compile_options(options, model.horizon, model.discount, self._prior)
        self._tree: Tree
        self._trace: kernels.Trace
        self._root_at(self._binding.handle(model.start), 0)

    def _start(self, seed: Seed) -> None:
        self._seed = seed_sequence(seed)
        self._bind(generator(self._seed), self.options)
        self._readers: list[weakref.ref[TreeReader]] = []  # of plans that show the tree as it is now

    # -------------------------------------------------------------------- root

    @property
    def root(self) -> NodeView:
        """The living tree, from its root (see :class:`NodeView`); it changes when the search goes on.

        Of several trees, from ``plan(threads=)``, it is the first.

        Raises
        ------
        OptionError
            If the horizon is reached: no decision is left.
        """
        self.require_decision()
        return NodeView(TreeReader(self._tree, self._binding, self.model.sense), self._tree.root, self._step)

    def _root_at(self, handle: int, step: int) -> None:
        self._others = []
        self._rules = self._new_rules()
        self._plant(handle, step, self._limits)
        self._set_levels(step)

    def _new_rules(self) -> kernels.Rules:
        return compile_options(self.options, self._settings.horizon, self._settings.discount, self._prior).rules

    def _move_root(self, position: int, handle: int, step: int) -> None:
        child = self._tree.child(self._tree.root, position, handle)
        if child is None or self._tree.num_actions(child) == 0:
            self._plant(handle, step, self._tree.limits)
            if child is None:
                self._set_levels(step)
            return
        self._take(self._tree.below(position, handle), handle, step)

    def risk_levels(self, planted: int) -> NDArray[np.float64]:
        """Return the risk level of each step in a tree that was planted at step ``planted``: float64, shape (H,).

        ``beta * discount**h`` at step h, wherever the tree was planted.
        """
        return self.options.beta * float(self.model.discount) ** np.arange(self._settings.horizon, dtype=np.float64)

    def _set_levels(self, planted: int) -> None:
        self._settings = self._settings._replace(betas=self.risk_levels(planted))

    def _plant(self, handle: int, step: int, limits: Limits) -> None:
        """Start a fresh tree."""
        num_actions = len(self._binding.actions(handle))
        if num_actions == 0:
            self._binding.fail(handle, -1, step)
        self._take(Tree(handle, num_actions, step, limits), handle, step)

    def _take(self, tree: Tree, handle: int, step: int) -> None:
        """Go on with another tree."""
        self._handle, self._step = handle, step
        if tree.is_loose:  # plans that look at the old one have the same memory
            self._tree = tree
        else:
            self._hold(tree)
        self._trace = kernels.new_trace(self._settings.horizon, tree.num_actions(tree.root), _FEWEST_SAMPLES)

    def _hold(self, tree: Tree) -> None:
        """Go on with a tree in memory of its own; the model drops the states that are not in it."""
        for reader in self._take_readers():
            reader.detach()
        self._tree = tree
        if self._binding.forgets:
            tree.rename(self._binding.retain(tree.handles()))
            self._handle = tree.handle(tree.root)

    def _compact(self) -> bool:
        """Free what an earlier move of the root left behind; return whether there was something."""
        is_loose = self._tree.is_loose
        if is_loose:
            self._hold(self._tree.compacted())
        return is_loose

    def _keep_samples(self, iterations: int | None) -> None:
        """Make room for the costs of so many more iterations, up to the most that is kept of each action."""
        latest = self._trace.latest
        most = min(_MOST_SAMPLES, max(_FEWEST_SAMPLES, 1 << max(1, _ALL_SAMPLES // latest.shape[0]).bit_length() - 1))
        wanted = most if iterations is None else int(self._trace.counts.max()) + iterations
        if latest.shape[1] < min(wanted, most):
            larger = np.empty((latest.shape[0], min(most, 1 << (wanted - 1).bit_length())))
            larger[:, : latest.shape[1]] = latest
            self._trace = self._trace._replace(latest=larger)

    def _take_readers(self) -> list[TreeReader]:
        """Return the views of plans that still live, and forget them."""
        readers, self._readers = [reader() for reader in self._readers], []
        return [reader for reader in readers if reader is not None]

    # ----------------------------------------------------------- several trees

    def _single_thread_reason(self) -> str:
        if self._prior is not None:
            return "a prior_policy, which is asked in Python, keeps to one"
        return "" if self._binding.is_parallel else "a model in plain Python keeps to one"

    def _working_trees(self, count: int) -> list[Self]:
        """Return the trees that work in a call, with room to grow.

        Whatever more the search may take of ``max_nodes`` and ``max_memory`` is divided among them evenly.
        """
        while (missing := count - 1 - len(self._others)) > 0:
            self._others.append(self.new_tree(self._seed.spawn(1)[0], self._spare(missing)))
        trees = self._trees[:count]
        if self._others:
            spare = self._spare(count)
            for one in trees:
                one._tree.limit(spare.plus(one._tree.num_nodes, one._num_bytes))
        return trees

    @property
    def root_state(self) -> Hashable:
        """State of the root as ``model`` names it, which may be a view of the problem."""
        return self._binding.state(self._handle)

    @property
    def seed(self) -> np.random.SeedSequence:
        """The seed that this tree draws from; further trees have its children."""
        return seed_sequence(self._seed)

    def new_tree(self, seed: Seed, limits: Limits | None = None) -> Self:
        """Return a search with a fresh tree at this one's root, within its own limits if none are given."""
        limits = self._limits if limits is None else limits
        other = self._started(seed)
        other._rules = other._new_rules()
        handle = other._binding.handle(self.root_state)
        other._plant(handle, self._step, limits)
        return other

    def _spare(self, parts: int) -> Limits:
        """Return one of so many equal parts of what the search may still take."""
        trees = self._trees
        nodes, taken = sum(one._tree.num_nodes for one in trees), sum(one._num_bytes for one in trees)
        return self._limits.plus(-nodes, -taken).part(parts)

    @property
    def _num_bytes(self) -> int:
        return self._tree.num_bytes + int(self._binding.num_bytes)

    # ------------------------------------------------------------------- state

    def _found(self) -> dict[str, Any]:
        trace, limits, seed = self._trace, self._tree.limits, self._seed
        latest = trace.latest.copy()
        latest[np.arange(latest.shape[1]) >= trace.counts[:, None]] = 0.0
        pairs = enumerate(zip(leaves(self._rules), leaves(self._new_rules()), strict=True))
        return {
            "binding": self._binding.state_dict(), "tree": self._tree.state_dict(), "betas": self._settings.betas,
            "rules": {k: copy.copy(now) for k, (now, first) in pairs if not np.array_equal(now, first)},
            "trace": (trace.counts.copy(), trace.actions.copy(), latest, trace.totals.copy()),
            "limits": (limits.max_nodes, limits.max_memory),
            "seeds": (seed.entropy, seed.spawn_key, seed.pool_size, seed.n_children_spawned),
        }  # fmt: skip

    def _load_found(self, found: dict[str, Any]) -> None:
        fresh = copy.deepcopy(self._new_rules())
        self._rules = refilled(fresh, (found["rules"].get(k, leaf) for k, leaf in enumerate(leaves(fresh))))
        self._binding.load_state_dict(found["binding"])
        most_nodes, most_bytes = found["limits"]
        limits = dataclasses.replace(self._limits, max_nodes=most_nodes, max_memory=most_bytes)
        self._tree = Tree.loaded(found["tree"], limits)
        counts, actions, latest, totals = found["trace"]
        trace = kernels.new_trace(self._settings.horizon, counts.size, latest.shape[1])
        self._trace = trace._replace(counts=counts, actions=actions, latest=latest, totals=totals)
        self._settings = self._settings._replace(betas=found["betas"])
        entropy, key, size, spawned = found["seeds"]
        self._seed = np.random.SeedSequence(entropy, spawn_key=key, pool_size=size, n_children_spawned=spawned)
        for reader in self._take_readers():
            reader.detach()

    # ---------------------------------------------------------------- planning

    def prepare(self, iterations: int | None) -> None:
        """Compile and make room for so many iterations."""
        self._search = self._compiled()
        self._keep_samples(iterations)
        for reader in self._take_readers():
            reader.settle()
        self._tree.leave_old_root()

    def counters(self) -> NDArray[np.int64]:
        """Return what has been counted so far: iterations, steps, and the place of a failure."""
        return self._trace.totals

    def _compiled(self) -> Any:
        """Compile or load the kernel for this kind of model and rules, before the clock starts."""
        kinds = (type(self._binding.data), *map(type, self._rules))
        if isinstance(self._rules.bonus, Guided):
            kinds += (type(self._rules.bonus.inner),)
        search = kernel_for(kernels.search_chunk, *kinds)
        if kinds not in _compiled_kinds and not DISABLE_JIT:
            num_actions = self._tree.num_actions(self._tree.root)
            self.options.recommended(np.ones(num_actions, np.int64), np.zeros(num_actions))
            with self._compiling():
                self._call(search, 0)
                Tree.compile(self._limits)
            _compiled_kinds.add(kinds)
        return search

    def _call(self, search: Any, iterations: int) -> Any:
        return search(
            self._binding.data, self._tree.arena, self._settings, self._rules, self._trace, self._stream, iterations
        )

    def _grow_by(self, iterations: int) -> StopReason | None:
        target = int(self._trace.totals[0]) + iterations
        while (left := target - int(self._trace.totals[0])) > 0:
            if self._tree.limits.max_memory is not None:
                self._binding.budget = self._tree.limits.max_memory - self._tree.num_bytes
            countable = self._tree.visits_left
            if countable <= 0:
                return StopReason.MAX_VISITS
            with self._binding.running():
                _, status = self._call(self._search, min(left, countable))
            if status == kernels.NODE_LIMIT:
                if not self._tree.sweep():
                    return StopReason.MAX_NODES
            elif status == kernel_model.FULL:
                try:
                    has_room = self._binding.make_room() or self._tree.grow(self._binding.num_bytes)
                except BudgetSpentError:
                    has_room = False
                if not has_room and not self._compact():
                    return StopReason.MAX_MEMORY
            elif status < 0:
                handle, position = int(self._trace.totals[2]), int(self._trace.totals[3])
                self._fail(handle, position)
        return None

    def statistics(self, before: NDArray[np.int64]) -> RootStatistics:
        """Return what this tree knows of its root."""
        tree, trace = self._tree, self._trace
        return RootStatistics(
            visits=tree.counts(tree.root),
            values=tree.values(tree.root),
            counts=trace.counts.copy(),
            moments=trace.actions.copy(),
            samples=tuple(latest[:n].copy() for latest, n in zip(trace.latest, trace.counts.tolist(), strict=True)),
            iterations=self.done_since(before),
            simulator_steps=int(trace.totals[1] - before[1]),
            nodes=tree.num_nodes,
            num_bytes=self._num_bytes,
        )

    def _report(self, before: list[NDArray[np.int64]], begun: float, stopped: StopReason) -> Plan:
        parts = [tree.statistics(old) for tree, old in zip(self._trees, before, strict=True)]
        return self.merged_plan(parts, time.perf_counter() - begun, stopped)

    def merged_plan(self, parts: list[RootStatistics], seconds: float, stopped: StopReason) -> Plan:
        """Return the plan that trees at this root make together."""
        sense, binding, beta = self.model.sense, self._binding, float(self._settings.betas[self._step])
        found = merged(parts, beta)
        visits, erms, samples = found.visits, found.values, found.samples
        total = int(visits.sum())
        if total == 0:
            self.refuse(stopped)
        actions = binding.actions(self._handle)
        labels = [binding.action_name(action, self._handle) for action in actions]
        widened = self.options.widening is not None
        sampled = [row[:0] for row in samples] if widened else list(samples)
        is_sampled = self.options.backup.is_sampled
        intervals = [
            sampled_interval(float(erm), int(seen), beta, totals, is_sampled=is_sampled)
            for erm, seen, totals in zip(erms, visits, sampled, strict=True)
        ]
        counts = found.counts * (not binding.weighs)
        rows = make_rows(Findings(actions, labels, visits, erms, visits > 0, counts, found.moments, intervals, sense))
        tried = np.flatnonzero(visits)
        value = weighted_erm(erms[tried], beta, visits[tried] / total) if tried.size > 1 else float(erms[tried[0]])
        best = self.options.recommended(visits, erms)
        reader = TreeReader(self._tree, binding, sense)
        self._readers.append(weakref.ref(reader))
        return Plan(
            action=rows[best].action,
            label=rows[best].label,
            value=value if sense == "cost" else 0.0 - value,
            rows=rows,
            state=self.state,
            step=self._step,
            beta=self.options.beta,
            root_beta=beta,
            sense=sense,
            iterations=found.iterations,
            simulator_steps=found.simulator_steps,
            nodes=found.nodes,
            bytes=found.num_bytes,
            seconds=seconds,
            stopped=stopped,
            interval_meaning=_NO_INTERVAL if widened else SAMPLING_INTERVAL if is_sampled else _BRACKET,
            trees=len(parts),
            method="tree search",
            totals=tuple(0.0 - costs if sense == "reward" else costs for costs in samples if not binding.weighs),
            notes=(WEIGHED,) if binding.weighs else (),
            tree=reader,
        )
