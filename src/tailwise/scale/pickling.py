"""From here to a worker: a job with its model and planner, as bytes.

Classes and functions of modules that the worker can import travel by name, all others (of a script, of a notebook) by
value, as cloudpickle does it. A search holds compiled code and a live stream, which do not travel: it is made again
from its model and parameters. A model that cannot travel at all can be named by ``model_path``: the worker then imports
and calls a function that makes it.
"""

from __future__ import annotations

import importlib
import io
import pickle
from typing import Any

from tailwise.errors import ModelError, OptionError, require
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
