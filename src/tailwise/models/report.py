"""What the checks of models report."""

from __future__ import annotations

from dataclasses import dataclass

from tailwise._shown import Shown
from tailwise.errors import ModelError

_SHOWN = 20


@dataclass(frozen=True)
class Violation:
    """One broken rule: where, what is wrong, and how to fix it."""

    where: str
    problem: str
    fix: str

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}; {self.fix}"


@dataclass(frozen=True)
class Report(Shown):
    """What :func:`check_model` found.

    Attributes
    ----------
    name : str
        Name of the model.
    violations : tuple of Violation
        What must be fixed.
    warnings : tuple of Violation
        What deserves a look.
    """

    name: str
    violations: tuple[Violation, ...]
    warnings: tuple[Violation, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there is no violation."""
        return not self.violations

    def raise_for_errors(self) -> None:
        """Raise one ``ModelError`` that lists the violations, if there are any."""
        if self.violations:
            shown = "\n  ".join(str(item) for item in self.violations[:_SHOWN])
            more = len(self.violations) - _SHOWN
            tail = f"\n  and {more} more" if more > 0 else ""
            raise ModelError(f"the model {self.name!r} breaks its contract:\n  {shown}{tail}")

    def __str__(self) -> str:
        count = len(self.violations)
        verdict = "ok" if self.ok else f"{count} violation{'s' if count > 1 else ''}"
        lines = [f"{self.name}: {verdict}"]
        lines += [f"  error    {item}" for item in self.violations]
        lines += [f"  warning  {item}" for item in self.warnings]
        return "\n".join(lines)
