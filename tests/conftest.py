"""What all tests share."""

import gc
import signal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

import browser as browsers
from tailwise import TabularMDP

settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("fixed")

# numba makes many objects that stay: to look them through again and again costs a sixth of the time to compile.
gc.set_threshold(100_000)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # begun in the background of a script: Ctrl-C would be ignored
    signal.signal(signal.SIGINT, signal.default_int_handler)


def shared_data() -> Path | None:
    """The folder of real model files that may stand beside the checkout."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    return folder if folder.is_dir() else None


@pytest.fixture
def data_folder():
    folder = shared_data()
    if folder is None:
        pytest.skip("the folder of real model files is not here")
    return folder


def newest(*environments):
    """The first of these that this Gymnasium has; where it has none the test is skipped."""
    known = [name for name in environments if name in pytest.importorskip("gymnasium").registry]
    return known[0] if known else pytest.skip(f"this Gymnasium has no {environments[0]}")


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    driver = browsers.start(tmp_path_factory.mktemp("chromium"))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def browser(chromium):
    """A headless Chromium (see :class:`browser.Browser`); without one the test is skipped and says so."""
    yield browsers.Browser(chromium)
    chromium.get("about:blank")  # a page that asks its server for news would do so until all tests are done


def random_mdp(seed, *, states=4, actions=3, horizon=4, discount=0.9, per_step=False, scale=1.0, done=False):
    """A small random table: ragged actions, two to three outcomes each, generic costs."""
    rng = np.random.default_rng(seed)
    rows = []
    for state in range(states):
        ids = np.sort(rng.choice(actions, size=rng.integers(1, actions + 1), replace=False))
        for action in ids:
            targets = rng.choice(states, size=rng.integers(2, 4), replace=True)  # may repeat: kept apart
            chances = rng.dirichlet(np.ones(targets.size))
            for target, chance in zip(targets, chances, strict=True):
                rows.append((state, action, target, chance, scale * rng.normal(), done and rng.random() < 0.15))
    state, action, target, chance, cost, ends = map(np.array, zip(*rows, strict=True))
    mdp = TabularMDP.from_outcomes(
        state, action, target, chance, cost, done=ends, horizon=horizon, discount=discount,
        terminal_costs=scale * rng.normal(size=states), num_states=states,
    )  # fmt: skip
    if per_step:
        from dataclasses import replace

        mdp = replace(mdp, step_losses=scale * rng.normal(size=(horizon, mdp.num_rows)))
    return mdp
