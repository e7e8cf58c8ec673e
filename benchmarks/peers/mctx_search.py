"""mctx (JAX) on a table: the MDP as its ``recurrent_fn``, a random rollout as the value of a new node.

mctx is made for learned models that are deterministic: a node is kept for each (node, action), so that an action's
chance is drawn once, when it is first tried, and never again in that search. It has no risk measure, and its number of
simulations is fixed when it is compiled. An action that a state lacks stands for one that it has (modulo); at the root
it is masked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def dense(mdp: Any) -> dict[str, Any]:
    """Arrays (S, A, K) of a table, padded; a target below 0 ends the episode in state -1 - target."""
    data = mdp.data
    if data.step_losses.size:
        raise ValueError("costs that depend on the step are not translated")
    counts = np.diff(data.action_offsets)
    width = int(np.diff(data.outcome_offsets).max())
    shape = (mdp.num_states, int(counts.max()), width)
    table = {"targets": np.zeros(shape, np.int32), "costs": np.zeros(shape, np.float32)}
    table["cumulative"] = np.ones(shape, np.float32)
    for s in range(shape[0]):
        for a in range(shape[1]):
            row = data.action_offsets[s] + a % counts[s]
            part = slice(data.outcome_offsets[row], data.outcome_offsets[row + 1])
            size = part.stop - part.start
            table["targets"][s, a] = data.targets[part.stop - 1]
            table["costs"][s, a] = data.losses[part.stop - 1]
            for name, values in (("targets", data.targets), ("costs", data.losses), ("cumulative", data.cumulative)):
                table[name][s, a, :size] = values[part]
    return {**table, "final": data.terminal_losses.astype(np.float32), "counts": counts.astype(np.int32)}


def build(
    mdp: Any, simulations: int, *, batch: int = 1, kind: str = "muzero", rollout: bool = True
) -> Callable[..., Any]:
    """Return a compiled function of (seed, state, h) to actions (batch,)."""
    import jax
    import jax.numpy as jnp
    import mctx

    table = {name: jnp.asarray(values) for name, values in dense(mdp).items()}
    actions, horizon, discount = table["costs"].shape[1], mdp.horizon, mdp.discount

    def step(key: Any, state: Any, h: Any, done: Any, action: Any) -> tuple[Any, ...]:
        draw = jax.random.uniform(key, state.shape)
        chances = table["cumulative"][state, action]
        k = jnp.minimum((chances <= draw[:, None]).sum(axis=1), chances.shape[1] - 1)
        target, cost = table["targets"][state, action, k], table["costs"][state, action, k]
        over = done | (h >= horizon)
        reward = jnp.where(over, 0.0, -cost)
        following = jnp.where(target < 0, -1 - target, target)
        done = over | (target < 0)
        last = ~done & (h + 1 >= horizon)
        reward -= jnp.where(last, discount * table["final"][following], 0.0)
        return following, h + 1, done | last, reward

    def roll_out(key: Any, state: Any, h: Any, done: Any) -> Any:
        def body(t: Any, carry: tuple[Any, ...]) -> tuple[Any, ...]:
            key, state, h, done, total, factor = carry
            key, first, second = jax.random.split(key, 3)
            action = jax.random.randint(first, state.shape, 0, table["counts"][state])
            state, h, done, reward = step(second, state, h, done, action)
            return key, state, h, done, total + factor * reward, factor * discount

        zero = jnp.zeros(state.shape, jnp.float32)
        return jax.lax.fori_loop(0, horizon, body, (key, state, h, done, zero, zero + 1.0))[4]

    def recurrent(_: Any, key: Any, action: Any, embedding: tuple[Any, ...]) -> tuple[Any, Any]:
        first, second = jax.random.split(key)
        state, h, done, reward = step(first, *embedding, action)
        value = roll_out(second, state, h, done) if rollout else jnp.zeros(reward.shape)
        logits = jnp.zeros((state.shape[0], actions))
        going = jnp.where(done, 0.0, discount)
        return mctx.RecurrentFnOutput(reward=reward, discount=going, prior_logits=logits, value=value), (state, h, done)

    def run(key: Any, state: Any, h: Any) -> Any:
        states = jnp.full((batch,), state, jnp.int32)
        embedding = (states, jnp.full((batch,), h, jnp.int32), jnp.zeros((batch,), bool))
        root = mctx.RootFnOutput(
            prior_logits=jnp.zeros((batch, actions)), value=jnp.zeros((batch,)), embedding=embedding
        )
        options: dict[str, Any] = {
            "params": None, "rng_key": key, "root": root, "recurrent_fn": recurrent, "num_simulations": simulations,
            "max_depth": horizon, "invalid_actions": jnp.arange(actions)[None, :] >= table["counts"][states][:, None],
        }  # fmt: skip
        if kind == "gumbel":
            return mctx.gumbel_muzero_policy(**options).action
        found = mctx.muzero_policy(**options, dirichlet_fraction=0.0)
        return found.action_weights.argmax(axis=1)

    compiled = jax.jit(run)
    return lambda seed, state, h=0: np.asarray(compiled(jax.random.PRNGKey(seed), state, h))
