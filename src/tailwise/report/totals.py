"""Reports of totals: of one planner's episodes, of several planners on the same luck, of a frontier, of laws.

Each function returns a document, whose ``save`` writes it as one page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tailwise._results import amounts, number, span
from tailwise.evaluation import Comparison, Frontier, FrontierPoint, Returns, Sensitivity, WhatIf
from tailwise.evaluation import Summary as Evaluation
from tailwise.models.simulator import model_name
from tailwise.report import charts
from tailwise.report.document import Block, Bullets, Document, Heading, Paragraph, Table, literal
from tailwise.report.words import LEVEL, made_with, measures_table, measures_words, settings_rows
from tailwise.risk.distribution import Measures

MOST_SHOWN = 6  # with charts; tables have all


def evaluation_report(
    returns: Returns,
    summary: Evaluation,
    *,
    model: Any,
    optimum: float | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Document:
    """Return the report of the episodes that one planner played.

    Parameters
    ----------
    returns : Returns
        The episodes.
    summary : Summary
        Their measures and intervals: ``returns.summary(objective)``.
    model : TabularMDP or simulator
        What was played.
    optimum : float, optional
        The exact optimum, where it is known.
    settings : mapping of str to object, optional
        What else should be known of how it was made, such as the seed.

    Examples
    --------
    >>> from tailwise import backward_induction, domains, evaluate
    >>> from tailwise.report import evaluation_report
    >>> mdp = domains.make("mdp-4")
    >>> returns = evaluate(mdp, backward_induction(mdp, 0.5), episodes=100, seed=0, label="the optimum")
    >>> evaluation_report(returns, returns.summary(0.5), model=mdp).title
    'What the optimum pays on mdp-4'
    """
    who, what = literal(returns.label or "the planner"), literal(model_name(model))
    said = f"{returns.episodes:,} episodes. The {literal(summary.measure)} of what {who} pays is "
    said += f"**{number(summary.value)}**, {_percent(summary.confidence)} interval {span(*summary.estimates[0])}"
    blocks: list[Block] = [Paragraph(f"{said}. {_against(optimum, summary.value, returns.sense)}".rstrip())]
    blocks.append(Table(
        ("measure", "value", f"{_percent(summary.confidence)} interval"),
        tuple((literal(e.measure), number(e.value), span(*e)) for e in summary.estimates),
    ))  # fmt: skip
    blocks += [Paragraph(f"Note: {literal(note)}") for note in summary.notes]
    blocks.append(Paragraph(f"A{summary.caveat[1:]}."))
    blocks += _totals([(returns.label or "total", returns)], summary.beta)
    blocks += made_with(settings_rows(model, {"objective": summary.measure, **(settings or {})}))
    return Document(f"What {who} pays on {what}", tuple(blocks))


def comparison_report(
    rows: Sequence[tuple[Returns, Evaluation, Comparison]],
    *,
    model: Any,
    optimum: float | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Document:
    """Return the report of several planners that met the same luck.

    Parameters
    ----------
    rows : sequence of (Returns, Summary, Comparison)
        Of each planner: its episodes, their measures, and its comparison with the first.
    model, optimum, settings
        As for :func:`evaluation_report`.

    Examples
    --------
    >>> from tailwise import backward_induction, domains, evaluate
    >>> from tailwise.evaluation import compare
    >>> from tailwise.report import comparison_report
    >>> mdp = domains.make("mdp-4")
    >>> two = [evaluate(mdp, backward_induction(mdp, beta), episodes=100, seed=0) for beta in (1.0, 0.0)]
    >>> rows = [(one, one.summary(1.0), compare(one, two[0], 1.0)) for one in two]
    >>> comparison_report(rows, model=mdp).title
    '2 planners on mdp-4'
    """
    first, summary, _ = rows[0]
    sense, percent = first.sense, _percent(summary.confidence)
    best = min(rows, key=lambda row: row[1].value if sense == "cost" else -row[1].value)
    clear = [literal(versus.first) for _, _, versus in rows[1:] if versus.is_clear]
    said = (
        f"{first.episodes:,} episodes each, on common random numbers. **{literal(best[0].label)}** has the best "
        f"{literal(summary.measure)}: {number(best[1].value)}. "
    )
    if len(rows) > 1:
        said += f"Clearly apart from {literal(first.label)}: {', '.join(clear) or 'none'}."
    cells = [
        (
            literal(returns.label), number(found.value), span(*found.estimates[0]), number(found.mean),
            number(found.cvar_95), f"{versus.difference:+.3g}", span(*versus.interval, 3),
            f"{versus.better}/{versus.equal}/{versus.worse}",
        )
        for returns, found, versus in rows
    ]  # fmt: skip
    columns = ("planner", "value", f"{percent} interval", "mean", "CVaR 95%", "minus the first", f"{percent} of it")
    blocks: list[Block] = [
        Paragraph(f"{said} {_against(optimum, best[1].value, sense)}".rstrip()),
        Table((*columns, "+/=/-"), tuple(cells)),
        charts.intervals(
            [(returns.label, found.value, *found.estimates[0]) for returns, found, _ in rows], exact=optimum,
            xlabel=f"{summary.measure} ({amounts(sense)})",
            caption=f"{literal(summary.measure)} of each planner with its {percent} interval."
            + (" Dotted: the optimum." if optimum else ""),
        ),
        Bullets((
            "**minus the first**: its value minus that of the first row, episodes paired.",
            "**+/=/-**: episodes in which it did better than, as well as, and worse than the first.",
        )),
        *[Paragraph(f"Note: {literal(note)}") for note in dict.fromkeys(n for _, s, _ in rows for n in s.notes)],
        Paragraph(f"A{summary.caveat[1:]}."),
        *_totals([(returns.label, returns) for returns, _, _ in rows], summary.beta),
        *made_with(settings_rows(model, {"objective": summary.measure, **(settings or {})})),
    ]  # fmt: skip
    return Document(f"{len(rows)} planners on {literal(model_name(model))}", tuple(blocks))


def frontier_report(found: Frontier, *, model: Any, settings: Mapping[str, Any] | None = None) -> Document:
    """Return the report of a frontier: the plans from risk-neutral to worst case, and what their tails cost.

    Parameters
    ----------
    found : Frontier
        The plans.
    model, settings
        As for :func:`evaluation_report`.

    Examples
    --------
    >>> from tailwise import domains, frontier
    >>> from tailwise.report import frontier_report
    >>> mdp = domains.make("mdp-4")
    >>> frontier_report(frontier(mdp, [0.0, 1.0]), model=mdp).title
    'What each aversion to risk buys on mdp-4'
    """
    points, sense = [found.points[k] for k in found.shown], found.sense
    columns = {name: cells for name, cells in found.columns.items() if not name.startswith("differs")}
    said = f"{len(found.points):,} plans. {' '.join(map(literal, found.in_words))}"
    names = [f"{p.label}, beta {span(p.low, p.high, 4)}" for p in points]
    rows = list(zip(*(map(literal, cells) for cells in columns.values()), strict=True))
    blocks: list[Block] = [
        Paragraph(said),
        charts.frontier(
            found, caption=f"Each plan by its mean and by the mean of its worst 5 % ({amounts(sense)}): what is given "
            "up on average buys a lighter tail.",
        ),
        *_slides(list(zip(names, points, strict=True)), sense),
        Table(tuple(columns), tuple(rows[k] for k in found.shown), text_columns=2),
        Bullets((
            "**price**: mean given up per unit of CVaR 95% saved, against the plan before.",
            "**ERM** is at the lower end of each interval of beta, or inside of it.",
            *(
                f"From beta {number(point.low, 4)} on it differs from the one before, first at {literal(point.change)}."
                for point in points
                if point.change
            ),
        )),
        *_totals([(name, point.law) for name, point in zip(names, points, strict=True)], None),
        *made_with(settings_rows(model, settings or {})),
    ]  # fmt: skip
    return Document(f"What each aversion to risk buys on {literal(model_name(model))}", tuple(blocks))


def _slides(plans: list[tuple[str, FrontierPoint]], sense: str) -> list[Block]:
    if len(plans) < 2:
        return []
    said = "{}: {} on average, {} in the worst 5 %, {} at worst"
    parts = [(said.format(name, *map(number, (p.mean, p.cvar[1], p.worst))), p.law) for name, p in plans]
    caption = "The slider goes from plan to plan as beta grows; the bars are the chances of totals in each bin."
    return [
        Heading("Move beta"),
        charts.slides(parts, xlabel=f"total {sense}", caption=caption),
        Heading("Plan by plan"),
    ]


def plans_report(
    title: str,
    said: str,
    plans: Sequence[tuple[str, Measures]],
    *,
    model: Any,
    settings: Mapping[str, Any] | None = None,
) -> Document:
    """Return the report of totals beside each other: those of plans for different aims.

    Parameters
    ----------
    title, said : str
        What was decided, in words; names in them must be ``literal``.
    plans : sequence of (str, ReturnDistribution or Returns)
        Names, and exact laws or fresh episodes.
    model, settings
        As for :func:`evaluation_report`.
    """
    blocks: list[Block] = [Paragraph(said), *_totals(plans, None), *made_with(settings_rows(model, settings or {}))]
    return Document(title, tuple(blocks))


def what_if_report(
    found: Sequence[WhatIf | Sensitivity], *, model: Any, settings: Mapping[str, Any] | None = None
) -> Document:
    """Return the report of what changed numbers do: tables side by side, and a tornado chart of a sensitivity.

    Parameters
    ----------
    found : sequence of WhatIf or Sensitivity
        Results of :func:`tailwise.what_if` and :func:`tailwise.sensitivity`.
    model, settings
        As for :func:`evaluation_report`.
    """
    blocks: list[Block] = []
    for result in found:
        columns, varied = result.columns, isinstance(result, Sensitivity)
        blocks.append(Heading("What turns the decision" if varied else "Scenarios"))
        blocks.append(Paragraph(f"{literal(result.headline)}."))
        if isinstance(result, Sensitivity):
            said = (
                "The value with each number less and more; dotted: as it is. A diamond: another action is best there."
            )
            blocks.append(charts.tornado(result, caption=said))
        rows = zip(*columns.values(), strict=True)
        blocks.append(Table(tuple(columns), tuple(tuple(map(literal, row)) for row in rows)))
        if varied:
            blocks.append(
                Paragraph("A decision that turns and turns back between two of the factors tried is not seen.")
            )
    blocks += made_with(settings_rows(model, settings or {}))
    return Document(f"What if, on {literal(model_name(model))}", tuple(blocks))


def _totals(parts: Sequence[tuple[str, Measures]], beta: float | None) -> list[Block]:
    caption = f"Totals ({amounts(parts[0][1].sense)})."
    return [
        Heading("Distribution of the total"),
        *totals_blocks(parts, beta, caption=caption, first="of", shown="first {}"),
    ]


def totals_blocks(
    parts: Sequence[tuple[str, Measures]], beta: float | None, *, caption: str, first: str, shown: str
) -> list[Block]:
    """Return charts and measures of totals by name; ``first`` is what the names are, ``shown`` says which are drawn."""
    chosen, sense = parts[:MOST_SHOWN], parts[0][1].sense
    left, blocks = len(parts) - len(chosen), list[Block]()
    if left:
        blocks.append(Paragraph(f"The charts show the {shown.format(len(chosen))}; {left} more are in the table."))
    return [
        *blocks,
        charts.histograms(chosen, beta=beta, level=LEVEL, xlabel=f"total {sense}", caption=caption),
        charts.exceedances(
            chosen, sense=sense,
            caption="How likely the total is worse than each value: the lower curve on the bad side is the safer.",
        ),
        measures_table(parts, beta, first=first),
        measures_words(sense, has_erm=beta is not None),
    ]  # fmt: skip


def _against(optimum: float | None, value: float, sense: str) -> str:
    if optimum is None:
        return ""
    loss = value - optimum if sense == "cost" else optimum - value
    side = "above" if (loss >= 0.0) == (sense == "cost") else "below"
    luck = "" if loss >= 0.0 else ", which is luck: no planner is better than the optimum"
    return f"The exact optimum is {number(optimum)}; the episodes came out {number(abs(loss), 3)} {side} it{luck}."


def _percent(confidence: float) -> str:
    return f"{100 * confidence:g} %"
