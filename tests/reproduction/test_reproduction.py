"""The reproduction: resuming, refusing, and numbers that agree with exact ones (tiny seeds)."""

import csv
import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from tailwise.domains import make
from tailwise.errors import OptionError, RunError, UnknownNameError
from tailwise.evaluation import evaluate
from tailwise.exact import backward_induction
from tailwise.planners import DistributionalMcts, ErmMcts
from tailwise.reproduction import VARIANTS, Settings, list_experiments, reproduce, summarise, write_reproduction
from tailwise.reproduction.experiments import AUTHORS_CODE, TABLES
from tailwise.reproduction.report import results_table
from tailwise.reproduction.runner import RunFolder
from tailwise.reproduction.variants import ACC, ERM, ORACLE, ForgetfulErmMcts, SlippedAccMcts, variant_planner

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # uint64, interpreted

TINY = Settings(seeds=3, variants=("authors", "rescaled"), most_iterations=20)


def contents(folder):
    """Everything in a run's folder but the log of times."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file() and path.name != "timing.log"
    }


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "out"
    return reproduce(folder, TINY)


def test_everything_in_the_paper_has_an_experiment():
    experiments = list_experiments(Settings())
    names = {experiment.name for experiment in experiments}
    assert len(names) == len(experiments)
    for entry in TABLES:
        iterations = 0 if entry.algorithm == ORACLE else {"mdp-4": 1000, "grid-mdp": 10_000}[entry.problem]
        variants = ["exact"] if entry.algorithm == ORACLE else ["authors", "repaired", "text"]
        for variant in variants:
            (experiment,) = [
                c for c in experiments
                if (c.problem, c.algorithm, c.variant, c.beta, c.iterations)
                == (entry.problem, entry.algorithm, variant, entry.beta, iterations)
            ]  # fmt: skip
            assert experiment.episodes >= 100
    curve_c = {
        c.iterations
        for c in experiments
        if (c.problem, c.beta, c.algorithm, c.variant) == ("mdp-4", 1.0, ACC, "authors")
    }
    assert curve_c == {100, 200, 500, 1000}
    curve_d = {
        c.iterations
        for c in experiments
        if (c.problem, c.beta, c.algorithm, c.variant) == ("grid-mdp", 0.01, ERM, "authors")
    }
    assert curve_d == {100, 200, 500, 1000, 2000, 3500, 5000, 10_000}
    assert any((c.problem, c.algorithm, c.iterations) == ("grid-mdp", ERM, 1000) for c in experiments)  # figure (b)


def test_every_run_of_the_authors_code_is_repeated():
    experiments = list_experiments(Settings())
    keys = {(c.problem, c.algorithm, c.beta, c.iterations) for c in experiments if c.variant == "authors"}
    assert {(run.problem, run.algorithm, run.beta, run.iterations) for run in AUTHORS_CODE} <= keys


@pytest.mark.compiled
def test_a_killed_run_resumes_to_the_same_bytes(finished, tmp_path):
    class Killed(Exception):
        pass

    def kill(done, total):
        if done > 0.4 * total:
            raise Killed

    with pytest.raises(Killed):
        reproduce(tmp_path / "run", TINY, progress=kill)
    part = len(contents(tmp_path / "run"))
    assert 1 < part < len(contents(finished.path))
    (tmp_path / "run" / "samples" / ".half.csv.part").write_text("a file that was being written")
    reproduce(tmp_path / "run", TINY, threads=2, resume=True)
    assert contents(tmp_path / "run") == contents(finished.path)


def test_resuming_a_complete_run_changes_nothing(finished):
    before = contents(finished.path)
    shares = []
    reproduce(finished.path, TINY, resume=True, progress=lambda done, total: shares.append(done / total))
    assert shares == [1.0]
    assert contents(finished.path) == before


def test_samples_are_those_of_evaluate(finished):
    for experiment in list_experiments(TINY):
        totals, _, mixture = finished.load(experiment)
        mdp = make(experiment.problem)
        seed = experiment.seed_sequence(TINY.seed)
        if experiment.algorithm == ORACLE:
            returns = evaluate(mdp, backward_induction(mdp, experiment.beta), episodes=experiment.episodes, seed=seed)
        else:
            planner = variant_planner(mdp, experiment.beta, experiment.algorithm, experiment.variant)
            returns = evaluate(mdp, planner, episodes=experiment.episodes, iterations=experiment.iterations, seed=seed)
        assert np.array_equal(totals, returns.costs)
        if mixture is not None:
            masses = np.bincount(mixture[:, 0].astype(int), weights=mixture[:, 2])
            assert masses == pytest.approx(np.ones(experiment.episodes))


def test_numbers_of_a_run(finished):
    summary = summarise(finished)
    assert len(summary.rows) == len(list_experiments(TINY))
    for row in summary.rows:
        problem, is_oracle = row.experiment.problem, row.experiment.algorithm == ORACLE
        exact = backward_induction(make(problem), row.experiment.beta).value
        assert row.exact == exact
        assert row.sampling_range.low <= row.sampling_range.high
        assert row.interval.low <= row.erm <= row.interval.high or np.ptp(row.totals) == 0
        if is_oracle:
            assert row.regret == 0.0
        if row.experiment.is_conditional:
            assert row.regret > -1e-9  # no luck is left that could beat the optimum, but for late slips
        assert (row.frequency_risk is not None) == (problem == "mdp-4" and not is_oracle)
        if row.frequency_risk is not None:
            assert row.frequency_risk >= exact - 1e-12


def test_the_summary_in_json_is_what_results_csv_says(finished):
    summary = summarise(finished)
    content = json.loads(json.dumps(summary.to_dict(), allow_nan=False))
    assert content["settings"]["seeds"] == 3
    assert len(content["rows"]) == len(summary.rows)
    assert len(content["checks"]) == len(summary.checks)
    for found, row in zip(content["rows"], summary.rows, strict=True):
        assert found["problem"] == row.experiment.problem
        assert (found["erm_low"], found["erm_high"]) == row.interval
        assert (found["sampling_low"], found["sampling_high"]) == row.sampling_range
        assert (found["paper"] is None) == (row.paper is None)
    lines = list(csv.DictReader(results_table(summary).splitlines()))
    for line, found in zip(lines, content["rows"], strict=True):
        assert line == {name: "" if value is None else str(value) for name, value in found.items()}


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes().replace(b"0,", b"0,1", 1)), "checksum"),
        (lambda path: path.write_bytes(path.read_bytes()[:-30]), "checksum"),
        (lambda path: path.write_text(""), "checksum"),
    ],
)
def test_a_corrupt_sample_is_named_and_nothing_is_lost(finished, tmp_path, spoil, message):
    import shutil

    folder = tmp_path / "copy"
    shutil.copytree(finished.path, folder)
    victim = sorted((folder / "samples").glob("*authors*.csv"))[0]
    spoil(victim)
    before = contents(folder)
    with pytest.raises(RunError, match=f"{victim.name}.*{message}.*move that file away"):
        reproduce(folder, TINY, resume=True)
    assert contents(folder) == before
    victim.unlink()
    reproduce(folder, TINY, resume=True)
    assert contents(folder) == contents(finished.path)


def test_folders_that_hold_something_else_are_refused(finished, tmp_path):
    before = contents(finished.path)
    with pytest.raises(RunError, match="holds this run already; --resume"):
        reproduce(finished.path, TINY)
    with pytest.raises(RunError, match=r"another run: its seeds is 3, not 4.*--out .* --resume"):
        reproduce(finished.path, Settings(seeds=4, variants=TINY.variants, most_iterations=20), resume=True)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match="not empty and holds no run"):
        reproduce(tmp_path, TINY)
    with pytest.raises(RunError, match="is a file"):
        reproduce(tmp_path / "notes.txt", TINY)
    assert contents(tmp_path) == {"notes.txt": b"mine"}
    assert contents(finished.path) == before


def test_a_damaged_manifest_is_reported(tmp_path):
    for text in ("{", "[]", json.dumps({"format": "tailwise reproduction 99"})):
        (tmp_path / "manifest.json").write_text(text)
        with pytest.raises(RunError, match=r"manifest\.json is damaged.*untouched"):
            RunFolder(tmp_path, TINY, resume=True)
        assert (tmp_path / "manifest.json").read_text() == text


def test_other_versions_are_not_mixed(finished, tmp_path):
    import shutil

    shutil.copytree(finished.path, tmp_path / "old")
    manifest = tmp_path / "old" / "manifest.json"
    content = json.loads(manifest.read_text())
    content["versions"]["numpy"] = "1.0"
    manifest.write_text(json.dumps(content))
    with pytest.raises(RunError, match=r"its numpy is '1\.0'"):
        reproduce(tmp_path / "old", TINY, resume=True)


HEAD = (
    '# {"cell": {"problem": "grid-mdp", "algorithm": "ERM-MCTS", "variant": "authors", "beta": 0.1, "iterations": 5, '
    '"episodes": 2}, "facts": {}}\n'
)
WRITTEN_BEFORE = """episode,total
0,5.8519850599
1,3.9403989999999998
# sha256 088a9f12e0197c0a0efdfff80e462a3d11f7b22e776493a66ff7ca6cdacb1141
"""
MIXTURE_WRITTEN_BEFORE = """episode,total,probability
0,62.01082267935573,0.01
0,58.090422679355726,0.0099
0,54.20922667935572,0.009801
0,50.36684263935573,0.00970299
0,5.8519850599,0.9509900498999999
0,46.562882439755725,0.0096059601
1,62.01082267935573,0.010000000000000002
1,58.090422679355726,0.009900000000000003
1,3.9403989999999998,0.970299
1,54.20922667935572,0.009801000000000002
# sha256 12ca4276fe4b36e5eee9b828d63a9251ae0f12f43dacdf0541d3b32638a27f70
"""


def test_samples_written_by_the_first_version_load(tmp_path):
    settings = Settings(problems=("grid-mdp",), seeds=2, variants=("authors",), most_iterations=5)
    folder = RunFolder(tmp_path / "run", settings, resume=False)
    (old,) = [e for e in list_experiments(settings) if (e.algorithm, e.beta) == (ERM, 0.1)]
    assert not folder.has(old)
    for kind, text in (("", WRITTEN_BEFORE), (".law", MIXTURE_WRITTEN_BEFORE)):
        (folder.path / "samples" / f"{old.name}{kind}.csv").write_bytes((HEAD + text).encode())
    assert folder.has(old)
    totals, facts, mixture = folder.load(old)
    assert (totals.tolist(), facts) == ([5.8519850599, 3.9403989999999998], {})
    assert mixture[4].tolist() == [0.0, 5.8519850599, 0.9509900498999999]
    folder.save(old, totals, facts, mixture)  # and are written as they were
    assert (folder.path / "samples" / f"{old.name}.law.csv").read_text() == HEAD + MIXTURE_WRITTEN_BEFORE


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"seeds": 0}, OptionError, "seeds must be at least 2"),
        ({"problems": ("mdp-5",)}, OptionError, "problem must be one of"),
        ({"variants": ("author",)}, UnknownNameError, "no variant is called 'author'"),
        ({"variants": ()}, OptionError, "at least one"),
        ({"seed": -1}, OptionError, "seed must be at least 0"),
    ],
)
def test_bad_settings_are_named(options, error, message):
    with pytest.raises(error, match=message):
        Settings(**options)


# --------------------------------------------------------------------- report


@pytest.mark.compiled
def test_report_of_a_small_run(tmp_path):
    pytest.importorskip("matplotlib")
    settings = Settings(seeds=3, variants=("authors", "repaired"), most_iterations=200)
    folder = reproduce(tmp_path / "run", settings)
    summary = summarise(folder)
    page = tmp_path / "page.html"
    *files, written = write_reproduction(summary, folder.path, page=page)
    assert written == page
    assert page.read_text().count("data:image/png;base64,") == page.read_text().count("<img")
    assert page.stat().st_size < 8e6
    assert all(file.stat().st_size > 0 for file in files)
    names = {file.name for file in files}
    assert {"report.md", "report.html", "results.csv", "a_mdp-4.png", "b_grid-mdp.svg"} <= names
    assert {"c_mdp-4_beta-1.png", "d_grid-mdp_beta-0.01.png", "d_grid-mdp_beta-0.1_closed-loop.svg"} <= names
    assert {"distributions_mdp-4.png", "distributions_grid-mdp.svg"} <= names
    text = (folder.path / "report.md").read_text()
    row = summary.find("mdp-4", "ERM-BI", "exact", 0.5)
    assert f"| {row.erm:.3f} (" in text
    assert "| 1.85 (1.77 to 1.93) |" in text  # the paper's
    assert "| 1.779 |" in text  # the exact value
    for name in ("authors", "repaired"):
        assert f"**{name}**:" in text
    html = (folder.path / "report.html").read_text()
    assert (
        html.count("<table>") == html.count("</table>") == sum(line.startswith("| :--") for line in text.splitlines())
    )
    for path in (folder.path / "figures").iterdir():
        assert path.suffix in (".png", ".svg")
    lines = (folder.path / "results.csv").read_text().splitlines()
    assert len(lines) == len(summary.rows) + 1
    before = {file: file.read_bytes() for file in files}
    write_reproduction(summarise(folder), folder.path)
    assert {file: file.read_bytes() for file in files} == before


# ------------------------------------------------------------------- variants


def test_a_forgetful_tree_differs_only_after_a_rebuild():
    mdp = make("mdp-4")
    for seen in (True, False):
        forgetful, plain = ForgetfulErmMcts(mdp, 1.0, seed=0), ErmMcts(mdp, 1.0, seed=0)
        for planner in (forgetful, plain):
            planner.plan(iterations=200 if seen else 2)
            planner.advance(1, 1) if seen else planner.advance(0, 3)
        assert plain.risk_levels(0) == pytest.approx(0.9 ** np.arange(20))
        shift = 0 if seen else 1
        assert forgetful._settings.betas == pytest.approx(0.9 ** (np.arange(20) - shift))
        assert forgetful.step == 1
        assert forgetful.plan(iterations=50).iterations == 50
        assert forgetful.fresh(3)._settings.betas == pytest.approx(plain.risk_levels(0))


@pytest.mark.compiled
def test_the_slip_is_what_makes_the_last_decisions_wrong():
    # From s0 at step 18 of mdp-4 the risky action is optimal at beta 1: its cost comes too late.
    mdp = make("mdp-4")
    assert backward_induction(mdp, 1.0).act(0, 18) == 0
    chosen = {"repaired": 0, "authors": 0}
    for variant, seed in itertools.product(chosen, range(20)):
        search = variant_planner(mdp, 1.0, ACC, variant).fresh(seed)
        search.reset(0, 18)
        chosen[variant] += search.plan(iterations=300).action == 0
    assert chosen == {"repaired": 20, "authors": 0}


def test_variants_make_what_they_say():
    mdp = make("mdp-4")
    assert type(variant_planner(mdp, 0.5, ACC, "authors")) is SlippedAccMcts
    assert variant_planner(mdp, 0.5, ACC, "repaired").model.utility.form == "raw"
    assert variant_planner(mdp, 0.5, ACC, "rescaled").model.utility.form == "rescaled"
    assert variant_planner(mdp, 0.5, ERM, "text").options.expansion == "path"
    assert variant_planner(mdp, 0.5, ERM, "constant-20").options.bonus.constant == 20.0
    assert type(variant_planner(mdp, 0.5, ERM, "repaired")) is ErmMcts
    assert isinstance(variant_planner(mdp, 0.5, "Distributional", "laws"), DistributionalMcts)
    assert all(variant.summary.endswith(".") for variant in VARIANTS.values())


def test_the_algorithm_that_the_paper_does_not_run_comes_only_by_name():
    assert "Distributional" not in {one.algorithm for one in list_experiments(Settings())}
    asked = list_experiments(Settings(problems=("mdp-4",), variants=("repaired", "laws"), most_iterations=100))
    assert [one.name for one in asked if one.beta == 0.5] == [
        "mdp-4_erm-bi_exact_beta-0.5", "mdp-4_erm-mcts_repaired_beta-0.5_n-100",
        "mdp-4_acc-mcts_repaired_beta-0.5_n-100", "mdp-4_distributional_laws_beta-0.5_n-100",
    ]  # fmt: skip


# ---------------------------------------------------------------- slow studies


@pytest.mark.slow
def test_agreement_with_the_authors_code(tmp_path):
    # 33 checks at 95 %: more than 5 failures has probability 0.6 % if all is well.
    folder = reproduce(tmp_path / "run", Settings(variants=("authors",)), threads=2)
    summary = summarise(folder)
    assert len(summary.checks) == len(AUTHORS_CODE)
    wrong = [check for check in summary.checks if not check.agrees]
    assert len(wrong) <= 5, wrong
