"""What the page does: one callback passes on what was pressed, another shows what there is to see."""

from __future__ import annotations

from typing import Any

from tailwise.errors import TailwiseError
from tailwise.explore import layout
from tailwise.explore.session import Session

_FIELDS = ("beta", "beta-slider", "iterations", "iterations-slider", "planner", "state")
_BUTTONS = ("more", "cancel", "restart")
_QUIET = 3  # ticks of the clock between two drawings while the work goes on, which needs the processor itself


def connect(app: Any, session: Session) -> None:
    """Register the callbacks of a page."""
    from dash import Input, Output, State, ctx, no_update

    @app.callback(
        [Output(name, "value") for name in _FIELDS],
        Output("alert", "children"),
        Output("asked", "data"),
        [Input(name, "value") for name in _FIELDS],
        [Input(name, "n_clicks") for name in _BUTTONS],
        Input("pressed", "data"),  # a button that is drawn anew: assets/rows.js says which
        State("asked", "data"),
        prevent_initial_call=True,
    )
    def ask(*values: Any) -> list[object]:
        error, value = "", ctx.triggered[0]["value"]
        try:
            answer(session, value if ctx.triggered_id == "pressed" else ctx.triggered_id, value)
        except TailwiseError as found:
            error = str(found)
        now = session.view().settings
        shown = [
            now.beta, layout.beta_position(now.beta), now.iterations,
            layout.iterations_position(now.iterations), now.planner, session.state_text(now.state),
        ]  # fmt: skip
        # A field that is as it was is left alone: something new may be half typed there by now.
        fields = [no_update if str(old) == str(new) else new for old, new in zip(values, shown, strict=False)]
        return [*fields, error, values[-1] + 1]

    @app.callback(
        Output("status", "children"),
        Output("cancel", "disabled"),
        Output("clock", "max_intervals"),
        Output("alert", "children", allow_duplicate=True),
        [Output(name, "children") for name in ("decision", "curves", "frontier", "episode")],
        Output("seen", "data"),
        Input("clock", "n_intervals"),
        Input("asked", "data"),
        State("seen", "data"),
        running=[
            (Output("clock", "disabled"), True, False)
        ],  # else a later tick would discard an answer that takes long
        prevent_initial_call="initial_duplicate",
    )
    def show(time: int | None, _asked: int, seen: int) -> list[object]:
        view = session.view()
        busy = bool(view.status.label)
        state = [layout.status(view), not busy, -1 if busy else 0, view.status.error or no_update]
        is_quiet = busy and ctx.triggered_id == "clock" and (time or 0) % _QUIET
        if view.version == seen or is_quiet:
            return [*state, *([no_update] * 4), no_update]
        parts = [
            layout.decision(session, view), layout.curves(view),
            layout.frontier(session, view), layout.episode(session, view),
        ]  # fmt: skip
        return [*state, *parts, view.version]


def answer(session: Session, pressed: Any, value: Any) -> None:
    """Do what a control of the page stands for.

    Parameters
    ----------
    session : Session
        What the page shows.
    pressed : str or dict
        The control's id; of a button in a row what it stands for, with its step ("place") and its action.
    value : object
        Its new value; of no account for a button.
    """
    if isinstance(pressed, str):
        actions: dict[str, Any] = {
            "beta": lambda: session.change(beta=value),
            "beta-slider": lambda: session.change(beta=layout.beta_at(float(value))),
            "iterations": lambda: session.change(iterations=value),
            "iterations-slider": lambda: session.change(iterations=layout.iterations_at(float(value))),
            "planner": lambda: session.change(planner=value),
            "state": lambda: session.change(state=value),
            "more": session.search_on,
            "cancel": session.cancel,
            "restart": session.restart,
        }
        actions[pressed]()
        return
    view, kind, place, k = session.view(), pressed["type"], pressed["place"], pressed["action"]
    if kind == "look":
        session.look(place)
    elif kind == "lay":
        session.lay_out()
    elif kind == "use" and view.frontier is not None:
        session.change(beta=view.frontier.points[k].beta)
    elif kind == "act" and place == view.place:  # else a click on an old page
        session.act(session.actions(view.moment.state)[k])
