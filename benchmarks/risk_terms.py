"""Each plan under each measure: ``python benchmarks/risk_terms.py FOLDER`` on a folder of CSV models.

Prints the table of docs/risk-terms.md: for every file and aim the plan's mean, ERM, EVaR and CVaR, and checks that each
plan improves its own measure over the risk-neutral one, and that the reported gaps hold.
"""

import sys
from pathlib import Path

from tailwise import CVaR, EVaR, backward_induction, load, solve

LEVEL, HORIZON = 0.9, 12


def main(folder: Path) -> None:
    print("| model | plan | mean | ERM | EVaR | CVaR | gap |")
    print("|---|---|---|---|---|---|---|")
    for path in sorted(folder.glob("*.csv")):
        if path.stem in ("domains_info", "rock_paper_scissors_outcomes"):
            continue
        mdp = load(path, horizon=HORIZON)
        sign = 1.0 if mdp.sense == "cost" else -1.0
        neutral = backward_induction(mdp, 0.0).distribution()
        if neutral.std == 0.0:
            print(f"| {path.stem} | the risk-neutral total is certain: {neutral.mean:.6g} | | | | | |")
            continue
        beta = 1.0 / neutral.std
        evar, cvar = solve(mdp, EVaR(LEVEL)), solve(mdp, CVaR(LEVEL))
        laws = {
            "neutral": (neutral, ""),
            f"ERM, beta {beta:.3g}": (backward_induction(mdp, beta).distribution(), ""),
            "EVaR": (evar.distribution(), f"{evar.gap:.2g}"),
            "CVaR": (cvar.distribution(), f"{cvar.gap:.2g}"),
        }
        rows = {name: (law.mean, law.erm(beta), law.evar(LEVEL), law.cvar(LEVEL)) for name, (law, _) in laws.items()}
        for column, (name, gap) in enumerate(
            ((f"ERM, beta {beta:.3g}", 0.0), ("EVaR", evar.gap), ("CVaR", cvar.gap)), 1
        ):
            slack = gap + 1e-6 * abs(rows["neutral"][column]) + max(law.tolerance for law, _ in laws.values())
            for other in rows.values():
                assert sign * rows[name][column] <= sign * other[column] + slack, (path, name, column)
        for name, (_, gap) in laws.items():
            print(
                f"| {path.stem} | {name} | {' | '.join(f'{value:.5g}' for value in rows[name])} | {gap} |", flush=True
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
