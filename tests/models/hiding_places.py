"""Where environments hide their randomness and their state; each class or function makes what ``step`` calls."""

import collections
import dataclasses
import functools
import itertools
import random
import secrets
import threading
import time
import weakref

import numpy as np

try:
    import gymnasium
except ImportError:  # the tests that use this are skipped
    gymnasium = None


if gymnasium is not None:

    class Coins(gymnasium.Env):
        """Guess ten coins. Nobody can expect more than 5 of 10; whoever knew the draws would expect 10."""

        action_space = gymnasium.spaces.Discrete(2)
        observation_space = gymnasium.spaces.Discrete(11)

        def __init__(self, make):
            self.make = make

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.tossed, self.toss = 0, self.make(seed, self)
            return 0, {}

        def step(self, action):
            self.tossed += 1
            return self.tossed, float(int(self.toss()) == action), self.tossed == 10, False, {}

    class Sums(gymnasium.Env):
        """Adds up its actions, somewhere; the sum is the observation and the reward."""

        action_space = gymnasium.spaces.Discrete(2)
        observation_space = gymnasium.spaces.Discrete(1000)

        def __init__(self, make):
            self.make = make

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.add = self.make()
            return 0, {}

        def step(self, action):
            total = self.add(action)
            return total, float(total), False, False, {}


class Holder:
    """Something that tosses with what it holds."""

    def __init__(self, held, use):
        self.held, self.use = held, use

    def __call__(self):
        return self.use(self.held)


def flip(source):
    return source.random() < 0.5


class Own:
    """A generator in an object of its own, used by calling it."""

    def __init__(self, seed, env):
        self.source = np.random.default_rng(seed)

    def __call__(self):
        return self.source.random() < 0.5


class Slotted:
    """A generator that ``vars`` does not show."""

    __slots__ = ("source",)

    def __init__(self, seed, env):
        self.source = np.random.default_rng(seed)

    def __call__(self):
        return self.source.random() < 0.5


class Unseeded(Slotted):
    """Seeded by the clock of the machine."""

    __slots__ = ()

    def __init__(self, seed, env):
        self.source = np.random.default_rng()


def in_a_deque(seed, env):
    return Holder(collections.deque([np.random.default_rng(seed)]), lambda held: flip(held[0]))


def in_a_long_list(seed, env):
    return Holder([0] * 2000 + [np.random.default_rng(seed)], lambda held: flip(held[-1]))


def bare_bits(seed, env):
    return Holder(np.random.PCG64(seed), lambda bits: bits.random_raw() % 2)


def old_generator(seed, env):
    return Holder(np.random.RandomState(seed), flip)


def python_generator(seed, env):
    return Holder(random.Random(seed), flip)


def frozen_law(seed, env):
    from scipy.stats import norm

    law = norm()
    law.random_state = np.random.default_rng(seed)
    return Holder(law, lambda law: law.rvs() < 0.0)


def closure(seed, env):
    source = np.random.default_rng(seed)
    return lambda: source.random() < 0.5


def bound_method(seed, env):
    return functools.partial(lambda draw: draw() < 0.5, random.Random(seed).random)


def seeded_by_np_random(seed, env):
    return Own(int(env.np_random.integers(2**31)), env)


def behind_a_lock(seed, env):
    source, lock = np.random.default_rng(seed), threading.Lock()

    def toss():
        with lock:
            return source.random() < 0.5

    return toss


def mapped_iterator(seed, env):
    source = random.Random(seed)
    tosses = map(lambda _: source.random() < 0.5, itertools.count())  # noqa: C417
    return lambda: next(tosses)


def gymnasiums_own(seed, env):
    return lambda: env.np_random.random() < 0.5


FOUND = [
    Own, Slotted, Unseeded, in_a_deque, in_a_long_list, bare_bits, old_generator, python_generator, frozen_law, closure,
    bound_method, seeded_by_np_random, behind_a_lock, mapped_iterator, gymnasiums_own,
]  # fmt: skip


class Congruential:
    """A generator that is a number in the state, as a JAX key is."""

    def __init__(self, seed, env):
        self.key = np.array([seed, 12345], dtype=object)

    def __call__(self):
        self.key[0] = (self.key[0] * 6364136223846793005 + 1442695040888963407) % 2**64
        return self.key[0] >> 60 & 1


class Key:
    """The same in plain data of the environment itself."""

    def __init__(self, seed, env):
        self.env, env.key = env, seed

    def __call__(self):
        self.env.key = (self.env.key * 6364136223846793005 + 1442695040888963407) % 2**64
        return self.env.key >> 60 & 1


class Emulator:
    """A generator in the memory of a library, which the library copies with everything else."""

    memory: dict[int, random.Random] = {}

    def __init__(self, seed, env):
        self.handle = len(self.memory)
        self.memory[self.handle] = random.Random(seed)

    def __call__(self):
        return self.memory[self.handle].random() < 0.5

    def __reduce__(self):
        return Emulator.like, (self.memory[self.handle].getstate(),)

    @staticmethod
    def like(state):
        made = Emulator(0, None)
        made.memory[made.handle].setstate(state)
        return made


class Closed(Emulator):
    """A library that copies nothing: only a replay restores it."""

    def __reduce__(self):
        raise TypeError("a handle cannot be copied")


def running_generator(seed, env):
    def run():
        source = np.random.default_rng(seed)
        while True:
            yield source.random() < 0.5

    tosses = run()
    return lambda: next(tosses)


def list_iterator(seed, env):
    tosses = iter((np.random.default_rng(seed).random(100) < 0.5).tolist())
    return lambda: next(tosses)


def cycle(seed, env):
    tosses = itertools.cycle((np.random.default_rng(seed).random(100) < 0.5).tolist())
    return lambda: next(tosses)


def shuffled_deck(seed, env):
    env.deck = [0, 1] * 10
    env.np_random.shuffle(env.deck)
    return env.deck.pop


KEPT = {}


def weakly_held(seed, env):
    KEPT["here"] = Own(seed, env)
    held = weakref.ref(KEPT["here"])
    return lambda: held()()


MODULE_WIDE = [np.random.default_rng(0)]


def module_wide_seeded(seed, env):
    MODULE_WIDE[0] = np.random.default_rng(seed)
    return lambda: MODULE_WIDE[0].random() < 0.5


FORESEEN = [
    Congruential, Key, Emulator, Closed, running_generator, list_iterator, cycle, shuffled_deck, weakly_held,
    module_wide_seeded,
]  # fmt: skip


def module_wide(seed, env):
    return lambda: MODULE_WIDE[0].random() < 0.5


def numpys_global(seed, env):
    return lambda: np.random.random() < 0.5  # noqa: NPY002


def pythons_global(seed, env):
    return lambda: random.random() < 0.5


def the_clock(seed, env):
    return lambda: hash(time.perf_counter_ns()) // 10 % 2


def secret(seed, env):
    return lambda: secrets.randbelow(2)


def the_system(seed, env):
    return Holder(random.SystemRandom(), flip)


UNREPEATABLE = [module_wide, numpys_global, pythons_global, the_clock, secret, the_system]


@dataclasses.dataclass(slots=True)
class SlottedSum:
    total: int = 0

    def __call__(self, action):
        self.total += action
        return self.total


class Frame:
    def __init__(self):
        import pandas

        self.frame = pandas.DataFrame({"total": [0]})

    def __call__(self, action):
        self.frame.loc[0, "total"] += action
        return int(self.frame.loc[0, "total"])


class Nested:
    def __init__(self):
        self.leaf = {"total": 0}
        self.root = self.leaf
        for _ in range(30):
            self.root = [{"inside": (self.root,)}]

    def __call__(self, action):
        self.leaf["total"] += action
        return self.leaf["total"]


class ObjectArray:
    def __init__(self):
        self.cells = np.array([{"total": 0}], dtype=object)

    def __call__(self, action):
        self.cells[0]["total"] += action
        return self.cells[0]["total"]


class Queue:
    def __init__(self):
        self.queue = collections.deque([0], maxlen=1)

    def __call__(self, action):
        self.queue.append(self.queue[0] + action)
        return self.queue[0]


def sum_in_closure():
    total = 0

    def add(action):
        nonlocal total
        total += action
        return total

    return add


def sum_in_partial():
    return functools.partial(lambda box, action: box.append(box[-1] + action) or box[-1], [0])


def sum_in_function():
    def add(action):
        add.total += action
        return add.total

    add.total = 0
    return add


def sum_in_generator():
    def run():
        total = 0
        action = yield
        while True:
            total += action
            action = yield total

    running = run()
    next(running)
    return running.send


class SumInClass:
    total = 0

    def __init__(self):
        SumInClass.total = 0

    def __call__(self, action):
        SumInClass.total += action
        return SumInClass.total


class Handle:
    memory: dict[int, int] = {}

    def __init__(self):
        self.handle = len(self.memory)
        self.memory[self.handle] = 0

    def __call__(self, action):
        self.memory[self.handle] += action
        return self.memory[self.handle]


STATES = [
    SlottedSum, Frame, Nested, ObjectArray, Queue, sum_in_closure, sum_in_partial, sum_in_function, sum_in_generator,
    SumInClass, Handle,
]  # fmt: skip
