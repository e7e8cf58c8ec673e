"""The paper's constants, schedules, rates and bounds as functions, in log space."""

from tailwise.theory.concentration import (
    log_concentration_constant,
    log_exponential_tail,
    log_theta,
    log_theta_nondeterministic,
    log_theta_transitions,
    polynomial_tail,
)
from tailwise.theory.estimators import AverageConstants, StreamConstants, average_constants, stream_constants
from tailwise.theory.rates import (
    FORMS,
    ExponentFit,
    check_alpha,
    check_beta,
    check_eta,
    check_xi,
    convergence_exponent,
    fit_exponent,
)
from tailwise.theory.schedule import DepthConstants, Schedule, schedule, smallest_xi

__all__ = [
    "FORMS",
    "AverageConstants",
    "DepthConstants",
    "ExponentFit",
    "Schedule",
    "StreamConstants",
    "average_constants",
    "check_alpha",
    "check_beta",
    "check_eta",
    "check_xi",
    "convergence_exponent",
    "fit_exponent",
    "log_concentration_constant",
    "log_exponential_tail",
    "log_theta",
    "log_theta_nondeterministic",
    "log_theta_transitions",
    "polynomial_tail",
    "schedule",
    "smallest_xi",
    "stream_constants",
]
