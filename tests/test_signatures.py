"""The same argument has the same name, place and default in every public function."""

import importlib
import inspect

import pytest

import tailwise

MODELS, WANTED = ("model", "mdp", "simulator"), ("objective", "beta", "level", "utility", "budget")
DEFAULTS = {  # of arguments that mean one thing everywhere; besides "must be given"
    "seed": {None},  # source of all randomness; None is another one each time
    "threads": {1},
    "iterations": {None, 1000, 2000, 10_000},  # of each plan
    "max_states": {100_000},  # most states of a simulator that are listed
    "kind": {"auto", None},  # which planner; of formats, which format
    "level": {None},  # confidence of a tail
}
ONE_SAMPLE = {  # where it is one sample that is measured, drawn again or shown, the seed is 0: the same each time
    *("evaluation.compare", "evaluation.sampling_interval", "evaluation.frontier"),
    *("evaluation.sampled_planning", "explore.Session", "explore.explore", "models.GymnasiumSimulator"),
    *("models.check_simulator", "logs.learn_model", "logs.off_policy", "logs.promise"),
    *("reproduction.Settings", "reproduction.ConvergenceStudy", "reproduction.runs_over_beta"),
}


def signatures():
    for layer in tailwise._LAYERS:
        module = importlib.import_module(f"tailwise.{layer}")
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if inspect.isfunction(value) or (inspect.isclass(value) and not getattr(value, "_is_protocol", False)):
                try:
                    yield f"{layer}.{name}", inspect.signature(value).parameters
                except ValueError:  # built in C
                    continue


FOUND = dict(signatures())


@pytest.mark.parametrize("name", FOUND)
def test_arguments_mean_one_thing(name):
    for argument, one in FOUND[name].items():
        if argument not in DEFAULTS or one.default is inspect.Parameter.empty or name == "report.Heading":
            continue
        allowed = DEFAULTS[argument] | ({0} if argument == "seed" and name in ONE_SAMPLE else set())
        assert one.default in allowed, (argument, one.default)


@pytest.mark.parametrize("name", FOUND)
def test_the_model_comes_first_and_what_is_wanted_second(name):
    names = [key for key, one in FOUND[name].items() if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    models = [key for key in names if key in MODELS]
    if models and not name.startswith(
        (
            "report.",
            "search.load_search",
            "exact.load_policy",
            "models.Violation",
            "exact.Policy",
            "exact.BeliefPolicy",
            "exact.FixedPlan",
        )
    ):
        assert names[0] == models[0]
        names = [key for key in names if key != "policy"]  # of a policy that is measured
        wanted = [key for key in names if key in WANTED]
        assert not wanted or names[1] == wanted[0] or name.startswith("reproduction."), names


def test_a_planner_is_named_by_kind():
    for name, parameters in FOUND.items():
        if "planner" in parameters:
            assert parameters["planner"].default != "auto", f"{name}(planner='auto'): call it kind"
