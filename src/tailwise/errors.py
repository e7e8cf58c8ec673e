"""Every error that tailwise raises on purpose.

::

    TailwiseError
    ├── ModelError          (ValueError)    the model breaks its contract
    │   └── InfiniteValueError              no policy has a finite value, or none is best
    ├── OptionError         (ValueError)    an argument or option is out of range
    ├── StateError          (LookupError)   a state or action is not in the model
    ├── UnknownNameError    (LookupError)   no domain, planner or environment of that name
    ├── FormatError         (ValueError)    a file does not say what its format requires
    ├── SimulatorError      (RuntimeError)  the user's simulator failed during a search
    ├── ConditionError      (ValueError)    a condition of a theorem does not hold
    ├── RunError            (RuntimeError)  an output folder or saved run cannot be used
    ├── WorkersLostError    (RuntimeError)  no worker of a cluster is left
    ├── VersionError        (RuntimeError)  an installed library is not laid out as the kernels need it
    └── MissingExtraError   (ImportError)   an optional dependency is not installed

A message says what was given, where, what was expected, and the way out.
"""

from __future__ import annotations

import importlib
import re
from types import ModuleType
from typing import Any

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+(?=>)")


class TailwiseError(Exception):
    """Base class of all errors that tailwise raises on purpose."""

    def __init__(self, *said: Any) -> None:  # an object that is quoted is told by its name, not by where it lies
        super().__init__(*(_ADDRESS.sub("", one) if isinstance(one, str) else one for one in said))


class ModelError(TailwiseError, ValueError):
    """Raised when a model breaks its contract (probabilities, costs, actions, start)."""


class InfiniteValueError(ModelError):
    """Raised when the best value is infinite; ``value`` is it, in the model's own sense. The message says why."""

    def __init__(self, message: str, value: float = float("inf")) -> None:
        super().__init__(message)
        self.value = value


class OptionError(TailwiseError, ValueError):
    """Raised when an argument or option has a wrong type or lies outside its range."""


class StateError(TailwiseError, LookupError):
    """Raised when a state or an action does not belong to the model."""


class UnknownNameError(TailwiseError, LookupError):
    """Raised when no domain, planner, environment or format has the given name."""


class FormatError(TailwiseError, ValueError):
    """Raised when a file does not hold what its format requires; names file and line."""


class SimulatorError(TailwiseError, RuntimeError):
    """Raised when the user's simulator fails; names state, action and step."""


class ConditionError(TailwiseError, ValueError):
    """Raised when parameters violate a condition of a theorem; names the condition."""


class RunError(TailwiseError, RuntimeError):
    """Raised when an output folder holds another run, or a saved run is damaged."""


class WorkersLostError(TailwiseError, RuntimeError):
    """Raised when no worker of a cluster is left; ``gathered`` is what had been reported until then, or None."""

    def __init__(self, message: str, gathered: Any = None) -> None:
        super().__init__(message)
        self.gathered = gathered


class VersionError(TailwiseError, RuntimeError):
    """Raised when an installed NumPy or numba keeps its data otherwise than the compiled kernels read it."""


class MissingExtraError(TailwiseError, ImportError):
    """Raised when an optional dependency is needed but not installed."""


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional dependency, or say which extra brings it.

    Parameters
    ----------
    module : str
        Dotted name of the module to import.
    extra : str
        The extra of tailwise that installs it.
    purpose : str
        What it is needed for, as the start of the error's sentence.

    Returns
    -------
    ModuleType
        The imported module.

    Raises
    ------
    MissingExtraError
        If the module is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{purpose} needs the package {module.partition('.')[0]!r}, which is not installed ({error}); "
            f"install it with: pip install 'tailwise[{extra}]'"
        ) from error
