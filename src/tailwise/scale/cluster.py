"""Workers on Ray: a cluster to connect to, or one of this machine's own, and the actors that do the work.

From here to a worker: a job with its model and planner, as bytes.

Classes and functions of modules that the worker can import travel by name, all others (of a script, of a notebook) by
value, as cloudpickle does it. A search holds compiled code and a live stream, which do not travel: it is made again
from its model and parameters. A model that cannot travel at all can be named by ``model_path``: the worker then imports
and calls a function that makes it.
"""

from __future__ import annotations

import importlib
import io
import os
import pickle
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tailwise import __version__
from tailwise._validate import integer
from tailwise.errors import ModelError, OptionError, RunError, VersionError, require
from tailwise.search import AnytimeSearch


def packed(content: Any, model: Any = None, model_path: str | None = None) -> bytes:
    """Return ``content`` as bytes; ``model_path`` (``package.module:function``) travels in the place of ``model``."""
    if model_path is not None and not callable(_found(model_path)):
        raise OptionError(f"model_path={model_path!r} cannot be called; expected a function that makes the model")
    cloudpickle = require("ray.cloudpickle", "ray", "work on a cluster")

    class Packer(cloudpickle.Pickler):  # type: ignore[misc, name-defined]
        def persistent_id(self, obj: Any) -> str | None:
            return model_path if obj is model and model is not None else None

        def reducer_override(self, obj: object) -> object:
            if isinstance(obj, AnytimeSearch):
                return _remade, (type(obj), obj.problem, obj.get_params())
            return super().reducer_override(obj)

    buffer = io.BytesIO()
    try:
        Packer(buffer, protocol=5).dump(content)
    except Exception as error:  # whatever a user's object raises
        raise ModelError(
            f"{type(model).__name__} or its planner cannot travel to a worker ({type(error).__name__}: {error}); "
            "define __reduce__ or __getstate__ for what it holds, or name a function that makes the model there: "
            "model_path='package.module:function'"
        ) from error
    return buffer.getvalue()


def unpacked(content: bytes) -> object:
    """Return what :func:`packed` was given."""

    class Unpacker(pickle.Unpickler):
        def persistent_load(self, path: str) -> object:
            return _found(path)()

    try:
        return Unpacker(io.BytesIO(content)).load()
    except ImportError as error:
        raise ModelError(
            f"a worker cannot import what it needs ({error}); install it there, or let the code travel by value: "
            "ray.cloudpickle.register_pickle_by_value(module)"
        ) from error


def _remade(kind: Any, model: Any, params: dict[str, Any]) -> Any:
    """Return an equal search that has found nothing."""
    return kind(model, **params, seed=0)


def _found(path: str) -> Any:
    module, _, name = path.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise OptionError(f"{path!r} cannot be imported ({error}); expected package.module:function") from error


class Report(NamedTuple):
    """What a worker has of a task."""

    task: int
    content: Any
    work: float  # how far it is, in a unit of its own
    is_final: bool


class Event(NamedTuple):
    """What came from a worker: it is ready (None), a report, a loss (why), or an error of the user's code."""

    worker: int
    what: Report | Exception | str | None


class Job:
    """What a worker is given: many tasks of one kind."""

    def begin(self) -> None:
        """Get ready on the worker: compile, load."""

    def run(self, task: int, seconds: float) -> Report:
        """Begin a task, or go on with it if it was the last one, for about so long."""
        raise NotImplementedError


class Worker:
    """What runs on the cluster, one process each."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._job: Job

    def begin(self, content: bytes) -> None:
        """Take the job."""
        if self._version != __version__:
            raise VersionError(
                f"a worker has tailwise {__version__}, this process {self._version}; install the same version on "
                "every node of the cluster"
            )
        job: Any = unpacked(content)
        self._job = job
        self._job.begin()

    def run(self, task: int, seconds: float) -> Report:
        """Work on a task."""
        return self._job.run(task, seconds)


@contextmanager
def connected(address: str, workers: int | None) -> Iterator[int]:
    """Connect to a cluster for a ``with`` block; yields the number of workers, by default one a CPU."""
    ray = require("ray", "ray", "work on a cluster")
    wanted = None if workers is None else integer(workers, "workers", low=1)
    was_connected = ray.is_initialized()
    if not was_connected:
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
        try:
            _knock(address)
            if address == "local":
                with _loopback_only():
                    ray.init(num_cpus=wanted or os.cpu_count(), include_dashboard=False, **options)
            else:
                ray.init(address=address, **options)
        except (OSError, ValueError, RuntimeError) as error:
            raise OptionError(
                f"no Ray cluster answers at {address!r} ({error}); start one with 'ray start --head', or use 'local'"
            ) from error
    try:
        yield wanted or max(1, int(ray.cluster_resources().get("CPU", 1)))
    finally:
        if not was_connected:
            ray.shutdown()


@contextmanager
def _loopback_only() -> Iterator[None]:
    """Have a cluster that starts here listen to this machine alone: what Ray does on Windows and macOS unasked."""
    constants: Any = require("ray._private.ray_constants", "ray", "work on a cluster")
    may_be_reached, constants.ENABLE_RAY_CLUSTER = constants.ENABLE_RAY_CLUSTER, False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = may_be_reached


def _knock(address: str) -> None:
    """Raise ``OSError`` at once if nothing listens at ``host:port``: Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=10.0).close()


class WorkerPool:
    """Carries tasks of a packed :class:`Job` to ``size`` actors of Ray, one CPU each."""

    def __init__(self, job: bytes, size: int) -> None:
        self.size = size
        self._ray = require("ray", "ray", "work on a cluster")
        self._kind = self._ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(Worker)
        self._job = self._ray.put(job)
        self._actors: dict[int, Any] = {}
        self._pending: dict[Any, int] = {}

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *error: object) -> None:
        for actor in self._actors.values():
            self._ray.kill(actor, no_restart=True)

    def start(self, worker: int) -> None:
        """Start a worker, which will be ready at some time."""
        self._actors[worker] = self._kind.remote(__version__)
        self._pending[self._actors[worker].begin.remote(self._job)] = worker

    def send(self, worker: int, task: int, seconds: float) -> None:
        """Let a worker begin a task or go on with it, and report after so many seconds at the latest."""
        self._pending[self._actors[worker].run.remote(task, seconds)] = worker

    def events(self, timeout: float) -> list[Event]:
        """Return what has come, or wait for it so long."""
        if not self._pending:
            return []
        ready, _ = self._ray.wait(list(self._pending), num_returns=1, timeout=timeout)
        if ready:
            ready, _ = self._ray.wait(list(self._pending), num_returns=len(self._pending), timeout=0)
        return [Event(self._pending.pop(one), self._answer(one)) for one in ready]

    def _answer(self, one: Any) -> Report | Exception | str | None:
        errors = self._ray.exceptions
        try:
            answer: Report | None = self._ray.get(one)
        except errors.RayTaskError as error:
            cause = error.cause
            return cause if isinstance(cause, Exception) else RunError(f"a worker failed: {error}")
        except errors.RayError as error:  # its process, its node or what it sent is gone
            return next(iter(str(error).splitlines()), "") or type(error).__name__
        return answer

    def now(self) -> float:
        """Return the time, in seconds."""
        return time.perf_counter()
