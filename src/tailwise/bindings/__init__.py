"""From a model to what the compiled search runs on: tables, accrued costs, Python and compiled simulators."""

from tailwise.bindings.binding import Binding, bind, position_of
from tailwise.bindings.options import Widening

__all__ = ["Binding", "Widening", "bind", "position_of"]
