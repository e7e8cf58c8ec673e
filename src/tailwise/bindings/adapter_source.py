"""The source of the adapters that stand between the kernel and a user's compiled functions.

Every block is a plain function over words in memory; ``@NAMES`` are filled in for the fields of the state, the sense
and the methods that the simulator has. Source, and not closures: numba builds a tuple of mixed ints and floats only
from an expression that spells it out, and a C function must hold its ``try`` around each of the user's calls in one
body.
"""

from __future__ import annotations

from tailwise.bindings.options import SimulationOptions
from tailwise.models.compiled import CompiledSimulator

ACTIONS, STEP, TERMINAL, ROLLOUT, LEAF, POLICY = 1, 2, 3, 4, 5, 6  # what integers[FAULT] says


def adapter_source(model: CompiledSimulator, options: SimulationOptions) -> str:
    """Return the Python source of the adapters for a simulator's fields, methods and sense."""
    fields = range(len(model.fields))
    loads = [
        f"load_word(base, {k})" if kind is int else f"load_float(base, {k})" for k, kind in enumerate(model.fields)
    ]
    parts = [f"value[{k}]" if model.is_tuple else "value" for k in fields]
    casts = [
        f"int({part})" if kind is int else f"(float({part}) + 0.0)"
        for part, kind in zip(parts, model.fields, strict=True)
    ]
    words = [cast if kind is int else f"float_bits({cast})" for cast, kind in zip(casts, model.fields, strict=True)]
    whole = "({},)" if model.is_tuple else "{}"
    stores = "; ".join(f"store_word(scratch, {k}, {words[k]})" for k in fields)
    has_terminal = hasattr(model, "terminal_cost")
    sign = "0.0 + float({})" if model.sense == "cost" else "0.0 - float({})"
    blocks = {
        "@STATE": whole.format(", ".join(loads)),
        "@CAST": whole.format(", ".join(casts)).replace("value", "target"),
        "@STORES": stores,
        "@COUNT": str(model.num_actions) if model.num_actions is not None else "actions(state)",
        "@SIGNED": sign,
    }
    source = _COMMON + _COUNT_SOURCE + _STEP_SOURCE
    source = source.replace("@TERMINAL", _TERMINAL if has_terminal else "end = 0.0")
    roll = (
        _ROLL_ONCE if options.leaf_value or (hasattr(model, "rollout") and not options.rollout_policy) else _ROLL_STEPS
    )
    once = (LEAF, "leaf_value(state, h)") if options.leaf_value else (ROLLOUT, "rollout(state, h, rng)")
    source += roll.replace("@CODE", str(once[0])).replace("@ONCE", once[1])
    source = source.replace("@END", _TERMINAL if has_terminal else "end = 0.0")
    source = source.replace("@CHOICE", _POLICY if options.rollout_policy else _UNIFORM)
    for key, text in blocks.items():
        if key != "@SIGNED":
            source = source.replace(key, text)
    for name in ("cost", "end", "whole"):
        source = source.replace(f"@SIGNED({name})", sign.format(name))
    return source


_COMMON = """
def load_state(context, handle):
    base = load_word(context, WORDS) + 8 * WIDTH * handle
    return @STATE

def fail(context, value, action, h):
    scratch = load_word(context, SCRATCH)
    @STORES
    store_word(context, FAULT_ACTION, action)
    store_word(context, FAULT_STEP, h)

def save_stream(context):
    source = load_word(context, GENERATOR)
    for k in range(5):
        store_word(context, SAVED_STREAM + k, load_word(source, k))
"""

_COUNT_SOURCE = """
def count_adapter(context, handle, action, h):
    state = load_state(context, handle)
    store_word(context, FAULT, 1)
    try:
        number = @COUNT
    except Exception:
        fail(context, state, -1, -1)
        return 0
    if number < 1 or number > MAX_ACTIONS:
        fail(context, state, -1, -1)
        return 0
    store_word(context, NEXT, number)
    store_word(context, STATUS, GO_ON)
    return 0
"""

_TERMINAL = """store_word(context, FAULT, 3)
        try:
            end = float(terminal_cost(target))
        except Exception:
            fail(context, target, -1, h)
            return 0
        if not abs(end) <= LARGEST_COST:
            fail(context, target, -1, h)
            return 0
        end = @SIGNED(end)"""

_STEP_SOURCE = """
def step_adapter(context, handle, action, h):
    state = load_state(context, handle)
    rng = generator_at(context + 8 * GENERATOR)
    numbers = load_word(context, NUMBERS)
    save_stream(context)
    store_word(context, FAULT, 2)
    try:
        target, cost, done = step(state, action, rng)
    except Exception:
        fail(context, state, action, h)
        return 0
    total = @SIGNED(cost)
    if not abs(total) <= LARGEST_COST:
        fail(context, state, action, h)
        return 0
    h += 1
    if done:
        store_word(context, STATUS, DONE)
    elif h == load_word(context, HORIZON):
        target = @CAST
        @TERMINAL
        total += load_float(numbers, DISCOUNT) * end
        store_word(context, STATUS, DONE)
    else:
        value = target
        scratch = load_word(context, SCRATCH)
        @STORES
        store_word(context, STATUS, GO_ON)
    store_float(numbers, COST, total)
    return 0
"""

_UNIFORM = """action = 0
        if number > 1:
            action = int(rng.random() * number)"""

_POLICY = """store_word(context, FAULT, 6)
        save_stream(context)
        try:
            action = int(rollout_policy(state, h, rng))
        except Exception:
            fail(context, state, -1, h)
            return 0
        if action < 0 or action >= number:
            fail(context, state, -1, h)
            return 0"""

_ROLL_STEPS = """
def roll_adapter(context, handle, action, h):
    state = load_state(context, handle)
    rng = generator_at(context + 8 * GENERATOR)
    numbers = load_word(context, NUMBERS)
    discount = load_float(numbers, DISCOUNT)
    horizon = load_word(context, HORIZON)
    total = 0.0
    factor = 1.0
    first = h
    done = False
    while h < horizon:
        store_word(context, FAULT, 1)
        try:
            number = @COUNT
        except Exception:
            fail(context, state, -1, h)
            return 0
        if number < 1 or number > MAX_ACTIONS:
            fail(context, state, -1, h)
            return 0
        @CHOICE
        store_word(context, FAULT, 2)
        save_stream(context)
        try:
            target, cost, ended = step(state, action, rng)
        except Exception:
            fail(context, state, action, h)
            return 0
        one = @SIGNED(cost)
        if not abs(one) <= LARGEST_COST:
            fail(context, state, action, h)
            return 0
        total += factor * one
        h += 1
        if ended:
            done = True
            break
        factor *= discount
        state = @CAST
    if not done:
        target = state
        @END
        total += factor * end
    store_float(numbers, COST, total)
    store_word(context, STEPS, h - first)
    store_word(context, STATUS, GO_ON)
    return 0
"""

_ROLL_ONCE = """
def roll_adapter(context, handle, action, h):
    state = load_state(context, handle)
    rng = generator_at(context + 8 * GENERATOR)
    store_word(context, FAULT, @CODE)
    save_stream(context)
    try:
        whole = float(@ONCE)
    except Exception:
        fail(context, state, -1, h)
        return 0
    if not abs(whole) <= LARGEST_COST:
        fail(context, state, -1, h)
        return 0
    store_float(load_word(context, NUMBERS), COST, @SIGNED(whole))
    store_word(context, STEPS, 0)
    store_word(context, STATUS, GO_ON)
    return 0
"""
