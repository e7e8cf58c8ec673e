"""From the measurements in .cache/peers to docs/peers.md and its pictures."""

from __future__ import annotations

import json
import math
import os
import platform
from collections import defaultdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pictures

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
PACKAGES = (
    "tailwise", "numpy", "scipy", "numba", "quantecon", "pomdp-py", "pymdptoolbox", "stormpy", "mctx", "jax", "gymcts",
    "gymnasium", "gymnasium-2048", "gym-classics2", "rddlrepository", "pyRDDLGym", "stable-baselines3", "torch",
)  # fmt: skip
REASONS = {
    "QuantEcon": "its sweep is one product with SciPy's sparse matrix, which has no ends or steps to look at",
    "pymdptoolbox": "its sweep is a product with SciPy's sparse matrix for each action",
    "Storm": "it keeps the values of one step alone, and no decisions",
    "mctx, batch 64": "its tree lies in arrays of a fixed size; 64 trees grow side by side in one vectorised program",
    "gymcts": "one random draw for each sequence of actions is enough where chance hardly matters at this budget",
    "plain Python": "it compiles nothing and imports nothing",
}
ONE_DRAW = "one draw for each action is enough where chance hardly matters at this budget"
CUT_SHORT = {
    "exact": "auto takes the optimal policy itself, so the difference is luck of these episodes",
    "bounded": "it lists outcomes and narrows bounds until the best action is proven; cut short, it acts on "
    "estimates between them, which say little after fewer than ten trials",
    "learned": "an iteration of the learned model costs several of a tree's, and in few iterations it repays little",
}


HIDDEN = ("tailwise", "tailwise, histories", "POMDPPlanners, POMCP", "POMDPPlanners, iterated CVaR")


class Measured:
    """All results, by section."""

    def __init__(self, folder: Path) -> None:
        self.sections: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for file in sorted(folder.glob("*.json")):
            entry = json.loads(file.read_text(encoding="utf-8"))
            self.sections[entry["section"]].append(entry)

    def rows(self, section: str, **options: Any) -> list[dict[str, Any]]:
        return [
            entry for entry in self.sections[section] if all(entry["options"].get(k) == v for k, v in options.items())
        ]

    def results(self, section: str, **options: Any) -> list[dict[str, Any]]:
        rows = sorted(self.rows(section, **options), key=lambda entry: entry["round"])
        return [row["result"] for row in rows if "result" in row]

    def why(self, section: str, **options: Any) -> str:
        words = [row["failed"] for row in self.rows(section, **options) if "failed" in row]
        return f"not measured: {words[0].replace('|', '/')}" if words else "not measured: the time was up"

    def values(self, section: str, option: str) -> list[Any]:
        found = {entry["options"][option] for entry in self.sections[section] if option in entry["options"]}
        return sorted(found)


def number(value: float, digits: int = 3) -> str:
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{places}f}" if places < 8 else f"{value:.2g}"


def median(values: list[float]) -> str:
    """Median, and least to most."""
    text = number(float(np.median(values)))
    return text if len(values) < 2 else f"{text} ({number(min(values))} to {number(max(values))})"


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def exact_part(measured: Measured, behind: list[str]) -> str:
    rows = []
    for states in measured.values("exact", "states"):
        ours = measured.results("exact", solver="tailwise", states=states)
        for solver in ("tailwise", "tailwise, beta 0.5", "QuantEcon", "pymdptoolbox", "Storm"):
            found = measured.results("exact", solver=solver, states=states)
            if not found or not ours:
                rows.append(
                    [f"{states:,}", solver, measured.why("exact", solver=solver, states=states), "", "", "", ""]
                )
                continue
            each = [row["seconds_per_sweep"] for row in found]
            ratios = [b["seconds_per_sweep"] / a["seconds_per_sweep"] for a, b in zip(ours, found, strict=False)]
            memory = [b["megabytes"] / max(a["megabytes"], 0.1) for a, b in zip(ours, found, strict=False)]
            apart = "" if "beta" in solver else f"{abs(found[0]['value'] - ours[0]['value']):.0e}".replace("0e+00", "0")
            rows.append([
                f"{states:,}", solver, number(1e3 * min(each)), "1" if solver == "tailwise" else median(ratios), apart,
                number(found[0]["setup_seconds"]), number(max(row["megabytes"] for row in found)),
            ])  # fmt: skip
            if "tailwise" in solver:
                continue
            if np.median(ratios) < 1.0:
                behind.append(
                    f"exact, {states:,} states: {solver} takes {median(ratios)} of tailwise's time a sweep; "
                    f"{REASONS.get(solver, '')}"
                )
            if np.median(memory) < 0.9 and states >= 10_000:
                behind.append(
                    f"exact, {states:,} states: {solver} needs {median(memory)} of tailwise's memory; "
                    "most is for building the table, from columns with a state, an action and a cost for each outcome"
                )
    head = ["states", "solver", "ms a sweep", "time, in tailwise's", "value apart", "set-up, s", "memory, MB"]
    return table(head, rows)


def endless_part(measured: Measured, behind: list[str]) -> str:
    rows = []
    for states in measured.values("endless", "states"):
        ours = measured.results("endless", solver="tailwise", states=states)
        for solver in ("tailwise", "tailwise, beta 0.01", "QuantEcon"):
            found = measured.results("endless", solver=solver, states=states)
            if not found or not ours:
                why = measured.why("endless", solver=solver, states=states)
                rows.append([f"{states:,}", solver, why, "", "", "", ""])
                continue
            ratios = [b["seconds"] / a["seconds"] for a, b in zip(ours, found, strict=False)]
            rows.append([
                f"{states:,}", solver, number(min(row["seconds"] for row in found)),
                "1" if solver == "tailwise" else median(ratios),
                "" if "beta" in solver else f"{abs(found[0]['value'] - ours[0]['value']):.0e}".replace("0e+00", "0"),
                number(found[0]["setup_seconds"]), number(max(row["megabytes"] for row in found)),
            ])  # fmt: skip
            if "tailwise" not in solver and np.median(ratios) < 1.0:
                behind.append(f"no horizon, {states:,} states: {solver} takes {median(ratios)} of tailwise's time")
    head = ["states", "solver", "seconds", "time, in tailwise's", "value apart", "set-up, s", "memory, MB"]
    return table(head, rows)


def hidden_part(measured: Measured, behind: list[str]) -> str:
    rows = []
    for problem in measured.values("hidden", "problem"):
        for beta in sorted({row["options"]["beta"] for row in measured.rows("hidden", problem=problem)}):
            where = {"problem": problem, "beta": beta}
            ours = measured.results("hidden", name="tailwise", **where)
            for name in HIDDEN:
                own_beta = where if name.startswith("tailwise") else {"problem": problem}
                found, head = measured.results("hidden", name=name, **own_beta), [problem, f"{beta:g}", name]
                if not found or not ours:
                    rows.append([*head, measured.why("hidden", name=name, **own_beta), "", "", ""])
                    continue
                totals, own = found[0]["totals"], ours[0]["totals"]
                gap, low, high = against(totals, own, beta, "cost")
                rows.append([
                    *head, number(float(risk_of(totals, beta, "cost")[0])), number(float(np.mean(totals))),
                    "" if name == "tailwise" else f"{gap:+.3g} ({low:+.3g} to {high:+.3g})",
                    number(found[0]["decision_ms"]),
                ])  # fmt: skip
                if "tailwise" not in name and high < 0.0:
                    behind.append(f"hidden states, {problem}, beta {beta:g}: {name} is better by {-gap:.3g}")
    return table(["problem", "beta", "player", "ERM of the losses", "mean", "to tailwise's default (90 %)", "ms"], rows)


def simulations_part(measured: Measured, behind: list[str]) -> str:
    rows = []
    for problem in measured.values("simulations", "problem"):
        ours, theirs = (
            measured.results("simulations", problem=problem, name=name)
            for name in ("tailwise, histories", "pomdp_py, POMCP")
        )
        if not ours or not theirs:
            rows.append([problem, "", "", measured.why("simulations", problem=problem), ""])
            continue
        number_of = f"{measured.rows('simulations', problem=problem)[0]['options']['simulations']:,}"
        gap, low, high = against(theirs[0]["totals"], ours[0]["totals"], 0.0, "cost")
        own, other = (number(float(np.mean(found[0]["totals"]))) for found in (ours, theirs))
        rows.append([problem, number_of, "tailwise, histories", own, ""])
        rows.append([problem, number_of, "pomdp_py, POMCP", other, f"{gap:+.3g} ({low:+.3g} to {high:+.3g})"])
        if high < 0.0:
            behind.append(f"hidden states, {problem}, equal simulations: pomdp_py's POMCP is better by {-gap:.3g}")
    return table(["problem", "simulations", "player", "mean loss", "to tailwise's histories (90 %)"], rows)


def search_part(measured: Measured, behind: list[str]) -> str:
    planners = (
        "tailwise, paper's rule", "tailwise, learned model", "plain Python", "gymcts", "mctx", "mctx, no rollout",
        "mctx, batch 64",
    )  # fmt: skip
    rows = []
    for problem in measured.values("speed", "problem"):
        for iterations in measured.values("speed", "iterations"):
            where = {"problem": problem, "iterations": iterations}
            ours = measured.results("speed", planner="tailwise, paper's rule", **where)
            for planner in planners:
                if not measured.rows("speed", planner=planner, **where):
                    continue
                found = measured.results("speed", planner=planner, **where)
                if not found or not ours:
                    rows.append(
                        [problem, f"{iterations:,}", planner, measured.why("speed", planner=planner, **where), "", ""]
                    )
                    continue
                (middle, low, high), mine = found[0]["per_second"], ours[0]["per_second"]
                ratio = f"{number(mine[0] / middle)} ({number(mine[1] / high)} to {number(mine[2] / low)})"
                own = planner == "tailwise, paper's rule"
                rows.append([
                    problem, f"{iterations:,}", planner, number(middle), "1" if own else ratio,
                    number(found[0]["megabytes"]),
                ])  # fmt: skip
                if mine[0] < middle and "tailwise" not in planner:
                    behind.append(f"search, {problem}, {iterations:,}: {planner} is quicker, ratio {ratio}")
    head = [
        "problem",
        "iterations",
        "search",
        "iterations a second",
        "tailwise's paper rule is quicker by",
        "memory, MB",
    ]
    return table(head, rows)


def first_part(measured: Measured, behind: list[str]) -> str:
    rows, cached = [], measured.results("first", planner="tailwise, learned model")
    for section, planner in (
        ("first", "tailwise, learned model"), ("first", "tailwise, paper's rule"), ("cold", "tailwise, paper's rule"),
        ("cold", "tailwise, learned model"), ("first", "plain Python"), ("first", "gymcts"), ("first", "mctx"),
    ):  # fmt: skip
        found = measured.results(section, planner=planner)
        name = planner + (", nothing compiled yet" if section == "cold" else "")
        if not found:
            rows.append([name, measured.why(section, planner=planner), "", ""])
            continue
        firsts = [row["first"] for row in found]
        rows.append([name, median(firsts), median([row["next"] for row in found]),
                     median([a["first"] / b["first"] for a, b in zip(found, cached, strict=False)])])  # fmt: skip
        if cached and section == "first" and "tailwise" not in planner:
            ratios = [a["first"] / b["first"] for a, b in zip(found, cached, strict=False)]
            if np.median(ratios) < 1.0:
                behind.append(
                    f"time to the first decision: {planner} takes {median(ratios)} of the time of tailwise's "
                    "learned model with its kernels cached: there is nothing to load"
                )
        if section == "cold":
            behind.append(
                f"time to the first decision, nothing compiled yet: {planner} takes {number(firsts[0])} s, once for "
                "each installation: numba compiles the kernels. (The two were started one after the other: the second "
                "finds what they share.)"
            )
    return table(["search", "first decision, s", "next decision, s", "first, in tailwise's (learned, cached)"], rows)


def quality_part(measured: Measured, behind: list[str]) -> str:
    merged: dict[tuple[str, int], dict[str, Any]] = defaultdict(dict)
    base: dict[tuple[str, int], float] = {}
    for entry in measured.sections["quality"]:
        key = (entry["options"]["problem"], entry["options"]["iterations"])
        if "result" in entry:
            merged[key].update(entry["result"]["rows"])
            base[key] = entry["result"]["random"]
        else:
            merged[key].update({name: {"failed": entry["failed"]} for name in entry["options"]["planners"]})
    names = (
        "tailwise, learned model", "tailwise, tree, preset auto", "tailwise, paper's rule", "paper's rule, constant 10",
        "tailwise, UCT", "plain Python", "gymcts", "mctx", "mctx, gumbel",
    )  # fmt: skip
    keys, rows = sorted(merged), []
    for name in names:
        cells = []
        for key in keys:
            cell = merged[key].get(name, {"failed": "the time was up"})
            if "failed" in cell:
                cells.append(f"not measured: {cell['failed']}")
                continue
            share, error = cell["regret"] / base[key], cell["error"] / base[key]
            cells.append(f"{share:.2f} ± {error:.2f} ({cell['optimal']}/{cell['seeds']})")
            ours = merged[key].get("tailwise, learned model", {})
            if "regret" in ours and not name.startswith(("tailwise", "paper")):
                gap = ours["regret"] - cell["regret"]
                if gap > 2.0 * math.hypot(ours["error"], cell["error"]) and gap > 1e-9:
                    behind.append(
                        f"first action at beta = 0, {key[0]}, {key[1]:,} iterations: {name} has a regret of {share:.2f}"
                        f" of a random action's, tailwise's learned model {ours['regret'] / base[key]:.2f}; "
                        f"{REASONS.get(name, ONE_DRAW)}"
                    )
        rows.append([name, *cells])
    return table(["search", *(f"{problem}, {iterations:,}" for problem, iterations in keys)], rows)


def defaults_part(measured: Measured, behind: list[str]) -> str:
    found = measured.results("defaults")
    if not found:
        return measured.why("defaults") + "\n"
    rows = []
    for name, row in found[0]["rows"].items():
        rows.append([
            name, f"{row['beta']:g}", row["planner"], f"{row['hits']} of {row['seeds']}",
            number(row["seconds"][0]), f"{row['as_black_box']} of {row['seeds']}", f"{100 * row['lost']:.2g} %",
        ])  # fmt: skip
        for count, what in ((row["hits"], "what `tailwise plan` takes"), (row["as_black_box"], "as a black box")):
            if count < 0.95 * row["seeds"]:
                behind.append(
                    f"domain defaults, {name}: {what} finds the optimal first action in {count} of {row['seeds']} "
                    f"seeds; the actions taken as a black box lose {100 * row['lost']:.2g} % of the value on average"
                )
    head = [
        "problem",
        "beta",
        "planner taken",
        "optimal first action",
        "seconds",
        "as a black box, learned model",
        "it loses",
    ]
    return table(head, rows)


def risk_of(totals: Any, beta: float, sense: str) -> Any:
    """Entropic risk of each row of totals, in the model's own sense."""
    values = np.atleast_2d(np.asarray(totals, float)) * (1.0 if sense == "cost" else -1.0)
    if beta == 0.0:
        return values.mean(axis=1) * (1.0 if sense == "cost" else -1.0)
    scaled = beta * values
    most = scaled.max(axis=1, keepdims=True)
    risk = (most[:, 0] + np.log(np.exp(scaled - most).mean(axis=1))) / beta
    return risk if sense == "cost" else -risk


def against(first: Any, second: Any, beta: float, sense: str) -> tuple[float, float, float]:
    """Difference of the risks of paired totals, with its 90 % bootstrap interval."""
    one, two = np.asarray(first, float), np.asarray(second, float)
    draws = np.random.default_rng(0).integers(one.size, size=(2000, one.size))
    differences = risk_of(one[draws], beta, sense) - risk_of(two[draws], beta, sense)
    low, high = np.quantile(differences, [0.05, 0.95])
    return float((risk_of(one, beta, sense) - risk_of(two, beta, sense))[0]), float(low), float(high)


def closed_part(measured: Measured, behind: list[str], dots: list[dict[str, Any]]) -> str:
    from closed_loop import PLAYERS, PROBLEMS

    rows = []
    keys = {(e["options"]["problem"], e["options"]["milliseconds"]) for e in measured.sections["closed"]}
    for problem, ms in sorted(keys, key=lambda key: (list(PROBLEMS).index(key[0]), key[1])):
        where, beta = {"problem": problem, "milliseconds": ms}, PROBLEMS[problem][0]
        played = {name: measured.results("closed", name=name, **where) for name in PLAYERS}
        auto, optimal = played["tailwise, auto"], played["optimal policy"]
        reference = (optimal or auto)[:1]
        for name in PLAYERS:
            if not measured.rows("closed", name=name, **where):
                continue
            short = problem.split(":")[-1].split("/")[-1] if problem.startswith("gym") else problem
            head = [short, f"{ms:g}", name]
            if not played[name] or not reference:
                rows.append([*head, measured.why("closed", name=name, **where), "", "", ""])
                continue
            found = played[name][0]
            own = float(risk_of(found["totals"], beta, found["sense"])[0])
            used = found["decision_ms"]
            gap, low, high = against(found["totals"], reference[0]["totals"], beta, found["sense"])
            mark = "" if found is reference[0] else f"{gap:+.3g} ({low:+.3g} to {high:+.3g})"
            exact = f"; exact {number(found['exact'], 4)}" if found["exact"] is not None else ""
            note = f" ({found['note']})" if found["note"] else ""
            mean = number(float(np.mean(found["totals"])))
            rows.append([head[0], head[1], name + note, f"{number(own)}{exact}", mean, mark,
                         "" if name == "optimal policy" else number(used)])  # fmt: skip
            dots.append({"problem": short, "ms": ms, "name": name, "gap": gap, "low": low, "high": high,
                         "sense": found["sense"], "reference": found is reference[0]})  # fmt: skip
            if name == "optimal policy" or not auto:
                continue
            if name != "tailwise, auto":
                better, low, high = against(auto[0]["totals"], found["totals"], beta, found["sense"])
                worse = low > 0 if found["sense"] == "cost" else high < 0
                if worse:
                    behind.append(
                        f"closed loop, {short} at {ms:g} ms: tailwise's auto is behind {name}, its risk differs by "
                        f"{better:+.3g} ({low:+.3g} to {high:+.3g}); {CUT_SHORT.get(auto[0]['note'], '')}"
                    )
            elif used > 2.0 * ms:
                behind.append(
                    f"closed loop, {short} at {ms:g} ms: tailwise's auto took {number(used)} ms a "
                    "decision: a first look at the model, and one iteration, are not interrupted"
                )
    head = [
        "problem",
        "limit, ms",
        "player",
        "ERM of the totals",
        "mean",
        "to the optimal policy, or to auto (90 %)",
        "ms used",
    ]
    return table(head, rows)


def learner_part(measured: Measured, behind: list[str]) -> str:
    found = measured.results("learner")
    if not found:
        return measured.why("learner") + "\n"
    row, rows = found[0], []
    best = row["totals"]["optimal policy"]
    for name, totals in row["totals"].items():
        gap, low, high = against(totals, best, row["beta"], row["sense"])
        own = float(risk_of(totals, row["beta"], row["sense"])[0])
        mark = "" if name == "optimal policy" else f"{gap:+.3g} ({low:+.3g} to {high:+.3g})"
        rows.append([name, number(own), number(float(np.mean(totals))), mark])
    ours, theirs = (row["totals"][name] for name in ("tailwise, learned model", "PPO, Stable-Baselines3"))
    gap, low, high = against(ours, theirs, row["beta"], row["sense"])
    if high < 0:
        behind.append(
            f"learner: PPO's policy is better by {-gap:.3g} ({-high:.3g} to {-low:.3g}) at equal simulator steps"
        )
    behind.append(
        f"learner: a trained policy answers at once and for every state, after {number(row['train_seconds'])} s of "
        "training; tailwise plans anew in each episode"
    )
    text = (
        f"Slippery CliffWalking-v1, 50 steps, beta = {row['beta']:g}. PPO trains on {row['steps']:,} simulator steps. "
        "tailwise uses as many for all decisions of one episode together, and starts from nothing in the next: "
        f"{row['iterations']} iterations of up to 50 steps a decision. The exact optimum is {number(row['exact'], 4)}. "
        "PPO knows no risk; a learner would need a risk-sensitive objective.\n\n"
    )
    return text + table(["player", "ERM of the totals", "mean", "to the optimal policy (90 %)"], rows)


def growth_part(measured: Measured) -> tuple[str, dict[str, Any]]:
    rows, curves = [], defaultdict(list)
    for axis in ("states", "actions", "outcomes", "horizon", "iterations"):
        entries = sorted(
            measured.rows("growth", axis=axis), key=lambda e: (e["options"]["planner"], e["options"]["value"])
        )
        for planner in ("exact", "paper's rule", "learned model"):
            points, broke = [], ""
            for entry in entries:
                if entry["options"]["planner"] != planner:
                    continue
                result = entry.get("result", {"broke": entry.get("failed", "")})
                if "broke" in result:
                    broke = broke or f"{entry['options']['value']:,}: {result['broke'].replace('|', '/')}"
                else:
                    points.append((entry["options"]["value"], result["seconds"], result["megabytes"]))
            if not points and not broke:
                continue
            curves[axis].append((planner, points))
            slope = ""
            if len(points) > 2:
                (x0, y0, _), (x1, y1, _) = points[-2:]
                slope = f"{math.log(y1 / y0) / math.log(x1 / x0):.2f}"
            last = points[-1] if points else (0, float("nan"), float("nan"))
            rows.append(
                [axis, planner, f"{last[0]:,}", number(last[1]), number(last[2]), slope, broke or "nothing up to there"]
            )
    head = ["axis", "planner", "largest", "seconds", "MB", "power of the last step", "what broke first"]
    return table(head, rows), dict(curves)


def machine() -> str:
    """Machine and versions."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    versions = []
    for package in PACKAGES:
        try:
            versions.append(f"{package} {version(package).split('+')[0]}")
        except PackageNotFoundError:
            versions.append(f"{package} not installed")
    import psutil

    memory = psutil.virtual_memory().total / 2**30
    return (
        f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB; {platform.system()}, Python {platform.python_version()}; "
        + ", ".join(versions) + ".\n"
    )  # fmt: skip


def part(make: Any, *arguments: Any) -> str:
    """Write one part; a result that cannot be read costs that part, and not the page."""
    try:
        return str(make(*arguments))
    except (KeyError, ValueError, TypeError, IndexError, ZeroDivisionError) as error:
        return f"Not written: {type(error).__name__}: {error}\n"


def write(folder: Path, page: Path, *, quick: bool, missing: list[str]) -> None:
    """Write the measured part of the page, and the pictures beside it."""
    measured, behind, dots = Measured(folder), [], []
    exact = part(exact_part, measured, behind)
    endless = part(endless_part, measured, behind)
    hidden, simulations = part(hidden_part, measured, behind), part(simulations_part, measured, behind)
    search, first = part(search_part, measured, behind), part(first_part, measured, behind)
    quality, defaults = part(quality_part, measured, behind), part(defaults_part, measured, behind)
    closed, learner = part(closed_part, measured, behind, dots), part(learner_part, measured, behind)
    growth, curves = growth_part(measured)
    shown = page.parent / "pictures"
    shown.mkdir(exist_ok=True)
    pictures.exact(measured, shown / "peers-exact.svg")
    pictures.search(measured, shown / "peers-search.svg")
    pictures.growth(curves, shown / "peers-growth.svg")
    pictures.closed(dots, shown / "peers-closed-loop.svg")
    wall = sum(entry["wall"] for entries in measured.sections.values() for entry in entries)
    state = "**A quick run with small sizes, to try the page out: do not quote it.** " if quick else ""
    state += f"{sum(map(len, measured.sections.values()))} measurements of {wall / 60:.0f} minutes in all"
    state += (
        f"; {len(missing)} more were planned and not reached in the time (a second call makes them).\n"
        if missing
        else ".\n"
    )
    parts = {
        "RUN": state, "MACHINE": machine(), "BEHIND": "".join(f"- {line}\n" for line in behind) or "Nowhere.\n",
        "EXACT": exact, "ENDLESS": endless, "HIDDEN": hidden, "SIMULATIONS": simulations,
        "SEARCH": search, "FIRST": first, "QUALITY": quality, "DEFAULTS": defaults,
        "CLOSED": closed, "LEARNER": learner, "GROWTH": growth,
    }  # fmt: skip
    text = (Path(__file__).parent / "page.md").read_text(encoding="utf-8")
    for name, words in parts.items():
        text = text.replace(f"@{name}@\n", words)
    page.write_text(text, encoding="utf-8")
