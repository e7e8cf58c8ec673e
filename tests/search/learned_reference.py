"""The learned-model search in plain Python: dicts and one line per sentence of its description. Slow and obvious."""

import math

from tailwise._random import generator


class Reference:
    """Speaks inner costs; ``visits`` and ``q`` are keyed by (step, state), each a list over the state's actions."""

    def __init__(self, model, beta, seed, *, exploration=0.1, leaf_value=None, rollout_policy=None, prior_policy=None):
        self.model, self.rng = model, generator(seed)
        self.H, self.g, self.beta = model.horizon, model.discount, beta
        self.exploration, self.leaf_value, self.policy = exploration, leaf_value, rollout_policy
        self.prior = prior_policy or (lambda state, h: [1.0] * len(self.actions(state)))
        self.sign = -1.0 if model.sense == "reward" else 1.0
        self.records, self.draws = {}, {}  # (state, is last, action) -> {(cost, target): count}, number
        self.q, self.v, self.taken, self.seen = {}, {}, {}, {}  # by (h, state)
        self.dismissed = False
        self.past, self.steps, self.steps_past, self.told = (
            0,
            0,
            0,
            [[] for _ in range(self.H)],
        )  # of iterations that look past leaf values
        self.gaps, self.shifts = [[] for _ in range(self.H)], [0.0] * self.H  # costs-to-go less leaf values, by step
        self.leaves, self.errors = {}, {}  # by (h, state), and of q by (h, state, action)
        self.met = set()
        self.costs, self.range = [], 0.0
        self.reach, self.visits = {}, {}  # by (h, state)
        self.totals, self.was_tree = {}, False  # by action of the root
        self.answers = {}  # by (iterations, h, state)
        self.iterations = self.since = self.swept = self.walked = self.arrived = self.old = 0
        self.enter(0, model.start)

    def togo(self, h):
        return sum(self.g**k for k in range(self.H - h))

    def actions(self, state):
        allowed = self.model.actions(state)
        return list(range(allowed)) if isinstance(allowed, int) else list(allowed)

    def record(self, h, state, a):
        return (state, h + 1 == self.H, a)

    def offset(self, h, state, a):
        steps = getattr(self.model, "step_losses", None)
        if steps is None or not steps.size:
            return 0.0
        return float(steps[h, self.model.action_offsets[state] + a])

    def step(self, h, state, a):
        """(cost without the step's offset but with what the end charges, target or None where the episode is over)."""
        action = self.actions(state)[a]
        if hasattr(self.model, "step_losses"):
            target, cost, done = self.model.step(state, action, self.rng, h)
        else:
            target, cost, done = self.model.step(state, action, self.rng)
        cost = round(self.sign * cost - self.offset(h, state, a), 12)
        if done:
            return cost, None
        if h + 1 == self.H:
            return cost + self.g * self.end(target), None
        return cost, target

    def end(self, state):
        terminal = getattr(self.model, "terminal_cost", None)
        return self.sign * terminal(state) if terminal is not None else 0.0

    def value_after(self, h, target):
        if target is None:
            return 0.0
        if self.v.get((h, target), math.inf) < math.inf:
            return self.v[h, target]
        return min(self.costs) * self.togo(h)

    def action_value(self, h, state, a):
        counts = self.records[self.record(h, state, a)]
        xs = [(cost + self.g * self.value_after(h + 1, target), n) for (cost, target), n in counts.items()]
        self.errors[h, state, a] = bounds_of_error(xs, self.beta * self.g**h, self.range * self.togo(h))
        return self.offset(h, state, a) + erm(xs, self.beta * self.g**h)

    def node_value(self, h, state):
        """The least Q, or a leaf value as far as the errors of Q leave it possible."""
        q = self.q[h, state]
        spans = [(q[a], self.errors[h, state, a] if q[a] < math.inf else math.inf) for a in self.indices(state)]
        return clipped(self.leaf_of(h, state), spans)

    def leaf_of(self, h, state):
        return self.leaves[h, state] + self.shifts[h] if (h, state) in self.leaves and not self.dismissed else None

    def set_shifts(self):
        """Take out of the leaf values of a step what they are too high by, beyond doubt, to what followed."""
        for h, gaps in enumerate(self.gaps):
            if len(gaps) >= 16:
                latest, beta = [(gap, 1) for gap in gaps[-32:]], self.beta * self.g**h
                value = erm(latest, beta)
                far = self.range * self.togo(h)
                far = far if abs(beta) < 1e-9 else math.expm1(beta * far) / beta
                error = bounds_of_error(latest, beta, far)
                self.shifts[h] = value if value + error < 0.0 else 0.0

    def judge(self):
        """Dismiss leaf values once more than half of those that can be judged lie outside."""
        outside = []
        for (h, state), leaf in self.leaves.items():
            q = self.q[h, state]
            if all(q[a] < math.inf and self.errors[h, state, a] < math.inf for a in self.indices(state)):
                low = min(q[a] - self.errors[h, state, a] for a in self.indices(state))
                high = min(q[a] + self.errors[h, state, a] for a in self.indices(state))
                outside.append(not low <= leaf + self.shifts[h] <= high)
        self.dismissed = (len(outside) >= 8 and sum(outside) > len(outside) / 2) or self.is_far_off()

    def is_far_off(self):
        """Whether leaf values are one number, beyond all costs-to-go of even episodes at most of the steps."""
        steps = [list(zip(*pairs, strict=True)) for pairs in self.told if len(pairs) >= 4]
        above = sum(min(leaves) > max(costs) for leaves, costs in steps)
        below = sum(max(leaves) < min(costs) for leaves, costs in steps)
        is_one_number = len({leaf for leaves, _ in steps for leaf in leaves}) == 1
        return is_one_number and 2 * max(above, below) > len(steps)

    def refresh(self, h, state):
        for a in self.indices(state):
            if self.draws.get(self.record(h, state, a), 0):
                self.q[h, state][a] = self.action_value(h, state, a)
        if min(self.q[h, state]) < math.inf or self.leaf_of(h, state) is not None:
            self.v[h, state] = self.node_value(h, state)

    def enter(self, h, state):
        self.met.add((state, h + 1 == self.H))
        if (h, state) not in self.q:
            n = len(self.actions(state))
            self.q[h, state], self.taken[h, state], self.seen[h, state] = [math.inf] * n, [0] * n, []
            self.refresh(h, state)

    def pick(self, choices):
        return choices[0] if len(choices) == 1 else choices[int(self.rng.random() * len(choices))]

    def select(self, h, state, is_tree):
        q, taken, seen = self.q[h, state], self.taken[h, state], self.seen[h, state]
        untried = [a for a in range(len(q)) if not self.draws.get(self.record(h, state, a), 0)]
        for a in range(len(q)):
            if q[a] == math.inf and a not in untried:
                q[a] = self.action_value(h, state, a)
        weights = self.weights(h, state)
        if untried:
            return self.pick([a for a in untried if weights[a] == max(weights[b] for b in untried)])
        spread = self.range or (max(self.costs) - min(self.costs) if self.costs else 0.0)
        scale = spread * self.togo(h)
        visits = self.visits.get((h, state), 0)
        if visits >= 2 and seen:
            scale = max(max(seen) - min(seen), 0.01 * scale)
        if is_tree:
            scale = 10.0 * min(scale, self.deviation() * self.togo(h) / self.togo(0) or scale)
        bonus = self.exploration * scale * (visits + 1) ** 0.25
        scores = [q[a] - bonus * min(max(weights[a], 1.0), 2.0) / math.sqrt(taken[a] + 1) for a in range(len(q))]
        return self.pick([a for a in range(len(q)) if scores[a] == min(scores)])

    def weights(self, h, state):
        """Weights of the actions by the prior, of mean 1."""
        said = self.prior(state, h)
        return [weight * len(said) / sum(said) for weight in said]

    def deviation(self):
        """Standard deviation of the totals sampled at the root through one action, pooled over the actions."""
        means = {a: math.fsum(totals) / len(totals) for a, totals in self.totals.items()}
        squares = math.fsum((total - means[a]) ** 2 for a, totals in self.totals.items() for total in totals)
        freedom = sum(len(totals) - 1 for totals in self.totals.values())
        return math.sqrt(squares / freedom) if freedom else 0.0

    def is_a_tree(self):
        """Whether states do not come back, or too seldom for what there is to try in them."""
        if self.arrived < 256:
            return False
        return 2 * self.old < self.arrived or sum(len(self.actions(s)) for s, _ in self.met) > 4 * self.walked

    def indices(self, state):
        return range(len(self.actions(state)))

    def is_seldom(self, h, state, a):
        return self.draws.get(self.record(h, state, a), 0) < 1 + int(math.log2(self.iterations // 128 + 1))

    def chance_of_new(self, h, state, a):
        """Known probability of coming to an action tried too seldom."""
        counts = self.records[self.record(h, state, a)]
        chances = [n * self.reach_of(h + 1, target) for (_, target), n in counts.items()]
        return (1 - min(0.05, 5 / (self.H + 1))) * sum(chances) / sum(counts.values())

    def reach_of(self, h, target):
        if target is None:
            return 0.0
        return self.reach.get((h, target), 0.0) if (h, target) in self.q else 1.0

    def scout(self, h, state):
        """An action tried too seldom, or the one that most surely leads to one."""
        if any(not self.draws.get(self.record(h, state, a), 0) for a in self.indices(state)):
            return None
        seldom = [a for a in self.indices(state) if self.is_seldom(h, state, a)]
        if seldom:
            return seldom[0]
        best, most = None, 0.0
        for a in self.indices(state):
            if self.chance_of_new(h, state, a) > most * (1 + 1e-9):
                best, most = a, self.chance_of_new(h, state, a)
        return best

    def least_tried(self, h, state):
        """The action tried least often in a state, at any step."""
        tried = [self.draws.get(self.record(h, state, a), 0) for a in self.indices(state)]
        least, weights = [a for a in self.indices(state) if tried[a] == min(tried)], self.weights(h, state)
        return self.pick([a for a in least if weights[a] == max(weights[b] for b in least)])

    def outcomes(self, h, state):
        """Every outcome known of a state."""
        records = (self.records.get(self.record(h, state, a), {}) for a in self.indices(state))
        return [outcome for counts in records for outcome in counts]

    def sweep(self):
        asked = self.leaf_value is not None and not self.dismissed
        for h in range(self.H - 1):
            is_last = h + 2 == self.H
            for state in [state for step, state in self.q if step == h]:
                for _, target in self.outcomes(h, state):
                    if asked and is_last and (target, False) in self.met:
                        self.met.add((target, True))  # what leaf_value says is known of it
                    is_known = target is not None and (target, is_last) in self.met
                    if is_known and (h + 1, target) not in self.q:
                        n = len(self.actions(target))
                        self.q[h + 1, target], self.taken[h + 1, target] = [math.inf] * n, [0] * n
                        self.seen[h + 1, target] = []
                        if asked:
                            self.v[h + 1, target] = self.leaves[h + 1, target] = self.roll_out(h + 1, target)
        self.set_shifts()
        for step, state in sorted(self.q, key=lambda key: -key[0]):
            self.refresh(step, state)
            self.refresh_reach(step, state)
        self.judge()

    def refresh_reach(self, step, state):
        seldom = any(self.is_seldom(step, state, a) for a in self.indices(state))
        self.reach[step, state] = (
            1.0 if seldom else max(self.chance_of_new(step, state, a) for a in self.indices(state))
        )

    def supported(self, h, state, a):
        """ERM of an action by the outcomes after which something is known; inf without."""
        return self.supported_span(h, state, a)[0]

    def supported_span(self, h, state, a, slips=False):
        """The same, and two and a half standard errors of it."""
        xs = []
        for (cost, target), n in self.records.get(self.lent(h, state, a), {}).items():
            borrows = self.lent(h, state, a) != self.record(h, state, a)
            is_end = borrows and target is not None
            after = self.end(target) if is_end else self.best_supported(h + 1, target, slips)
            if after < math.inf:
                xs.append((self.offset(h, state, a) + cost + self.g * after, n))
        beta = self.beta * self.g**h
        return (erm(xs, beta), bounds_of_error(xs, beta, self.range * self.togo(h))) if xs else (math.inf, math.inf)

    def lent(self, h, state, a):
        """The record to answer by: at the last step that of the others where it has more draws."""
        here, others = self.record(h, state, a), (state, False, a)
        return others if h + 1 == self.H and self.draws.get(others, 0) > self.draws.get(here, 0) else here

    def best_supported(self, h, state, slips=False):
        """What the known outcomes support from a state on; with ``slips`` in part what actions are on average."""
        if state is None:
            return 0.0
        key = self.iterations, h, state, slips
        if key not in self.answers:
            spans = [self.supported_span(h, state, a, slips) for a in self.indices(state)]
            best = self.answers[key] = clipped(self.leaf_of(h, state), spans)
            known = [(q, self.draws[self.lent(h, state, a)]) for a, (q, _) in enumerate(spans) if q < math.inf]
            if slips and len(known) > 1 and self.leaf_of(h, state) is None:
                drawn = sum(n for _, n in known)
                share = min(1.0, 0.5 * (len(known) / drawn) ** 0.25)
                self.answers[key] = (1.0 - share) * best + share * sum(q * n for q, n in known) / drawn
        return self.answers[key]

    def roll_out(self, h, state):
        if self.leaf_value is not None:
            return self.sign * self.leaf_value(state, h)
        total, factor = 0.0, 1.0
        while h < self.H and state is not None:
            a = self.pick(list(self.indices(state)))
            before = state
            cost, state = self.step(h, state, a)
            total += factor * (cost + self.offset(h, before, a))
            factor, h = factor * self.g, h + 1
        return total

    def iterate(self):
        is_tree = self.is_a_tree()
        if is_tree and not self.was_tree:
            for a, totals in self.totals.items():
                b, top = self.beta, max(self.beta * total for total in totals)
                mean = math.fsum(math.exp(b * total - top) for total in totals) / len(totals)
                self.q[0, self.model.start][a] = (top + math.log(mean)) / b
        self.was_tree = is_tree
        is_late = 3 * self.since >= self.walked and 2 * self.since >= self.swept
        if not is_tree and (is_late or (self.since >= 4 * self.swept and 8 * self.since >= self.walked)):
            self.sweep()
            looked = sum(len(self.outcomes(*key)) for key in self.q)
            self.since, self.swept = 0, max(len(self.q) + 1, looked // 64)
        h, state, path, tail = 0, self.model.start, [], 0.0
        past = (
            not is_tree
            and self.leaf_value is not None
            and not self.dismissed
            and 4 * (self.steps_past + self.H) <= self.steps
        )
        turn = self.past if past else self.iterations
        scouts = not is_tree and turn % 8 == 7 and self.reach.get((0, state), 0.0) > 0.0
        evenly = not is_tree and turn % 2 == 1 and not scouts
        follows = evenly and self.policy is not None and turn % 4 == 1
        root_draws = [self.draws.get(self.record(0, state, a), 0) for a in self.indices(state)]
        shallow = self.leaf_value is not None and not self.dismissed and not past and min(root_draws) < 32
        while h < self.H:
            a = self.scout(h, state) if scouts and self.reach.get((h, state), 0.0) > 0.0 else None
            if follows and state != self.model.start:
                a = self.actions(state).index(self.policy(state, h, self.rng))
            elif follows or evenly:
                a = self.least_tried(h, state)
            elif a is None:
                a = self.select(h, state, is_tree)
            cost, target = self.step(h, state, a)
            known = target is None or bool({(target, False), (target, h + 2 == self.H)} & self.met)
            path.append((h, state, a, cost, target, known))
            h, state = h + 1, target
            if target is None:
                break
            self.enter(h, target)
            if not is_tree and self.leaf_value is not None:
                if shallow and (h, target) in self.leaves:
                    tail = self.v[h, target]
                    break
                if (h, target) in self.leaves or self.dismissed:
                    continue
                self.leaves[h, target] = self.roll_out(h, target)
                tail, self.v[h, target] = self.leaf_of(h, target), self.node_value(h, target)
                if not past:
                    break
                tail = 0.0
            if not known and is_tree:
                tail = self.v[h, target] = self.roll_out(h, target)
                break
        self.since, self.walked = self.since + len(path), self.walked + len(path)
        if h < self.H:
            self.costs = [min([0.0, *self.costs]), max([0.0, *self.costs])]
        new = False
        for step, before, a, cost, target, known in reversed(path):
            whole = cost + self.offset(step, before, a)
            self.costs = [min([whole, *self.costs]), max([whole, *self.costs])]
            tail = whole + self.g * tail
            if past and evenly and step > 0:
                self.told[step].append((self.leaves[step, before], tail))
            if past and not evenly and not scouts and step > 0:
                self.gaps[step].append(tail - self.leaves[step, before])
            counts = self.records.setdefault(self.record(step, before, a), {})
            self.draws[self.record(step, before, a)] = self.draws.get(self.record(step, before, a), 0) + 1
            if (cost, target) not in counts:
                new = True
                if target is not None:
                    self.arrived, self.old = self.arrived + 1, self.old + known
            counts[cost, target] = counts.get((cost, target), 0) + 1
            self.visits[step, before] = self.visits.get((step, before), 0) + 1
            if not scouts and not evenly:
                self.seen[step, before].append(tail)
            self.taken[step, before][a] += 1
            n, q = self.taken[step, before][a], self.q[step, before]
            if is_tree:
                b = self.beta * self.g**step
                q[a] = tail if n == 1 else mixed(q[a], tail, 1.0 / n, b)
            elif n <= 32 or n % 2 ** int(math.log2(n // 32)) == 0 or q[a] == math.inf:
                if len(counts) <= 64 or q[a] == math.inf:
                    q[a] = self.action_value(step, before, a)
                else:
                    x = whole + self.g * self.value_after(step + 1, target)
                    q[a] = mixed(q[a], x, 1.0 / self.draws[self.record(step, before, a)], self.beta * self.g**step)
            self.v[step, before] = min(q) if is_tree else self.node_value(step, before)
        if not new:
            self.arrived, self.old = self.arrived + 1, self.old + 1
        if self.arrived >= 8 * 256:
            self.arrived, self.old = self.arrived // 2, self.old // 2
        self.iterations, self.steps = self.iterations + 1, self.steps + len(path)
        if past:
            self.past, self.steps_past = self.past + 1, self.steps_past + len(path)
        self.totals.setdefault(path[0][2], []).append(tail)
        for step, before, *_ in reversed(path if scouts else []):
            self.refresh_reach(step, before)
        seen = self.seen[0, self.model.start]
        self.range = max(self.range, (max(seen) - min(seen)) / self.togo(0)) if seen else 0.0
        return tail


def erm(xs, beta):
    """ERM of pairs (cost, count)."""
    total = sum(n for _, n in xs)
    if abs(beta) < 1e-9:
        return math.fsum(x * n for x, n in xs) / total
    top = max(beta * x for x, _ in xs)
    return (top + math.log(math.fsum(n * math.exp(beta * x - top) for x, n in xs) / total)) / beta


def bounds_of_error(xs, beta, span):
    """Two and a half standard errors of an ERM (delta method), one ``span`` away added; none of fewer than 16."""
    total, value = sum(n for _, n in xs), erm(xs, beta)
    if total < 16:
        return math.inf
    away = [(x - value if abs(beta) < 1e-9 else math.expm1(beta * (x - value)) / beta, n) for x, n in xs]
    return 2.5 * math.sqrt((span * span + math.fsum(n * d * d for d, n in away)) / (total - 1) / total)


def clipped(leaf, spans):
    """A leaf value between the bounds of the least value; of (value, error), or that least value without a leaf."""
    if leaf is None:
        return min(value for value, _ in spans)
    low = min(value - error if value < math.inf else -math.inf for value, error in spans)
    return min(max(leaf, low), min(value + error for value, error in spans))


def mixed(first, second, share, beta):
    """ERM of two sure costs of weights 1 - share and share."""
    if abs(beta) < 1e-9:
        return (1.0 - share) * first + share * second
    top = max(beta * first, beta * second)
    return (top + math.log((1.0 - share) * math.exp(beta * first - top) + share * math.exp(beta * second - top))) / beta
