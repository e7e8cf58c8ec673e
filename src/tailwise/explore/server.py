"""The server of the page: this machine only, and only who knows the address.

The address holds a random token; every other request is refused, and so is one that names another host (a page
elsewhere whose name is made to point to this machine). Pages may load nothing from anywhere else.

One callback of the page passes on what was pressed, another shows what there is to see.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import webbrowser
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tailwise._results import nesting
from tailwise._validate import integer, truth
from tailwise.errors import RunError, TailwiseError, require
from tailwise.explore import layout
from tailwise.explore.session import Session
from tailwise.models.simulator import model_name

if TYPE_CHECKING:
    import flask
    from dash import Dash

_FIELDS = ("beta", "beta-slider", "iterations", "iterations-slider", "planner", "state", "number", "factor")
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
        view = session.view()
        now, varied = view.settings, view.varied
        shown = [
            now.beta, layout.beta_position(now.beta), now.iterations,
            layout.iterations_position(now.iterations), now.planner, session.state_text(now.state),
            varied.number, layout.factor_position(varied.factor),
        ]  # fmt: skip
        # A field that is as it was is left alone: something new may be half typed there by now.
        fields = [no_update if str(old) == str(new) else new for old, new in zip(values, shown, strict=False)]
        return [*fields, error, values[-1] + 1]

    @app.callback(
        Output("status", "children"),
        Output("cancel", "disabled"),
        Output("clock", "max_intervals"),
        Output("alert", "children", allow_duplicate=True),
        [Output(name, "children") for name in ("decision", "curves", "frontier", "episode", "varied")],
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
            return [*state, *([no_update] * 5), no_update]
        parts = [
            layout.decision(session, view), layout.curves(view),
            layout.frontier(session, view), layout.episode(session, view), layout.varied(session, view),
        ]  # fmt: skip
        return [*state, *parts, view.version]


def answer(session: Session, pressed: Any, value: Any) -> None:
    """Do what a control of the page stands for, by its id and its new value.

    Of a button in a row the id is what it stands for ("type"), with its step ("place") and its action.
    """
    if isinstance(pressed, str):
        actions: dict[str, Any] = {
            "beta": lambda: session.change(beta=value),
            "beta-slider": lambda: session.change(beta=layout.beta_at(float(value))),
            "iterations": lambda: session.change(iterations=value),
            "iterations-slider": lambda: session.change(iterations=layout.iterations_at(float(value))),
            "planner": lambda: session.change(planner=value),
            "state": lambda: session.change(state=value),
            "number": lambda: session.vary(number=str(value or "")),
            "factor": lambda: session.vary(factor=layout.factor_at(float(value))),
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


_MOST_BYTES, _MOST_DEPTH = 2**24, 64  # of a request
_HOST = "127.0.0.1"


def explore(
    model: Any,
    *,
    beta: float = 0.0,
    iterations: int = 2000,
    kind: str = "auto",
    seed: int = 0,
    port: int = 0,
    open_browser: bool = True,
    announce: Callable[[str], None] = print,
) -> None:
    """Serve a page on this machine where a model's decisions are explored, until Ctrl-C.

    Parameters
    ----------
    model : TabularMDP or simulator
        The problem.
    beta : float, default 0.0
        Risk level to begin with.
    iterations : int, default 2000
        Iterations of each decision, to begin with.
    kind : str, default "auto"
        A name of :func:`tailwise.planners.list_planners`, to begin with.
    seed : int, default 0
        Of the planner and of what happens in the episodes.
    port : int, default 0
        Port to serve at; 0 takes a free one.
    open_browser : bool, default True
        Whether to open the page in the user's browser.
    announce : callable, default print
        Told the address, in a sentence.

    Raises
    ------
    MissingExtraError
        If Dash is not installed (extra ``explore``).
    RunError
        If the port is taken.
    """
    require("dash", "explore", "the explorer")
    truth(open_browser, "open_browser")
    session = Session(model, beta=beta, iterations=iterations, kind=kind, seed=seed)
    server = PageServer(session, port=port)
    announce(f"exploring {model_name(model)} at {server.address} (Ctrl-C ends it)")
    try:
        if open_browser:
            webbrowser.open(server.address)
        server.run()
    except KeyboardInterrupt:
        pass
    finally:
        server.close()


class PageServer:
    """Serves one session; ``address`` is where, token included. Port 0 takes a free one."""

    def __init__(self, session: Session, *, port: int = 0) -> None:
        from werkzeug.serving import make_server

        wanted = integer(port, "port", low=0, high=65535)
        self.session = session
        self.token = secrets.token_urlsafe(24)
        try:
            listening = socket.create_server((_HOST, wanted))
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise RunError(
                f"port {wanted} of this machine cannot be used ({reason}); choose another one, or leave it out to get "
                "one that is free"
            ) from error
        with listening:
            self.port = int(listening.getsockname()[1])
            logging.getLogger("werkzeug").setLevel(logging.ERROR)
            app = page_app(session, self.token, self.port)
            self._server = make_server(_HOST, self.port, app.server, threaded=True, fd=listening.fileno())

    @property
    def address(self) -> str:
        """Address of the page."""
        return f"http://{_HOST}:{self.port}/{self.token}/"

    def run(self) -> None:
        """Serve until :meth:`stop` or Ctrl-C."""
        self._server.serve_forever(poll_interval=0.1)

    def stop(self) -> None:
        """End :meth:`run`, from another thread."""
        self._server.shutdown()

    def close(self) -> None:
        """Give the port back, and end the work under way."""
        self._server.server_close()
        self.session.cancel()
        self.session.wait(5.0)


def _is_shallow(request: Any) -> bool:
    """Whether a request's JSON is no deeper than the page's own requests are."""
    try:
        return nesting(request.get_json(silent=True)) < _MOST_DEPTH
    except RecursionError:
        return False


def page_app(session: Session, token: str, port: int) -> Dash:
    """Return the Dash application of a session, which answers under ``/token/`` at this machine's ``port`` alone."""
    import dash
    import flask

    server = flask.Flask("tailwise.explore")
    server.config["MAX_CONTENT_LENGTH"] = _MOST_BYTES
    hosts = {f"{name}:{port}" for name in (_HOST, "localhost")}

    @server.before_request
    def refuse() -> flask.Response | None:
        """Answer only requests with the token, to this machine by its own name."""
        given = flask.request.path.split("/")[1]
        if flask.request.host not in hosts or not secrets.compare_digest(given.encode(), token.encode()):
            return flask.Response("403: use the address that tailwise explore has printed", 403, mimetype="text/plain")
        if flask.request.is_json and not _is_shallow(flask.request):
            return flask.Response("400: the request is nested too deeply", 400, mimetype="text/plain")
        return None

    app = dash.Dash(
        "tailwise.explore", server=server, url_base_pathname=f"/{token}/", serve_locally=True, title="tailwise",
        update_title="", suppress_callback_exceptions=True, enable_mcp=False,
        assets_folder=str(layout.ASSETS), meta_tags=[{"name": "viewport", "content": "width=device-width"}],
    )  # fmt: skip
    app.layout = lambda: layout.page(session)
    connect(app, session)
    scripts = " ".join(app.csp_hashes())

    @server.after_request
    def protect(response: flask.Response) -> flask.Response:
        response.headers["Content-Security-Policy"] = (
            f"default-src 'self'; script-src 'self' {scripts}; style-src 'self' 'unsafe-inline'; "
            "img-src 'self' data: blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
        )
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Cache-Control"] = "no-store"
        return response

    return app
