"""Numbers as people read them, and the words for amounts and steps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailwise import CVaR, domains, printoptions, set_printoptions, solve
from tailwise._results import number
from tailwise.errors import OptionError


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.0, 6, "0"), (-0.0, 6, "0"), (12.5, 6, "12.5"), (999.9996, 6, "1,000"), (1234567.8, 6, "1,234,570"),
        (1234567.8, 9, "1,234,567.8"), (-24700.0, 4, "-24,700"), (1e6, 5, "1,000,000"), (5e-324, 6, "4.94066e-324"),
        (1e15, 6, "1e+15"), (float("inf"), 6, "∞"), (float("nan"), 6, "-"), (None, 6, "-"),
        (1e-5, 6, "0.00001"), (-1.23e-7, 6, "-0.000000123"), (9.9e-8, 6, "9.9e-08"),
    ],
)  # fmt: skip
def test_a_number_has_commas_and_no_exponent_where_people_have_none(value, digits, text):
    assert number(value, digits) == text


@given(st.floats(-1e14, 1e14), st.integers(1, 12))
def test_a_number_keeps_its_digits(value, digits):
    assert float(number(value, digits).replace(",", "")) == float(f"{value:.{digits}g}")


def test_amounts_and_steps_have_names_for_a_while():
    policy = solve(domains.make("mdp-4"), CVaR(0.9))
    before = policy.plan().headline
    with printoptions(unit="EUR", step_name="week"):
        assert "(costs in EUR, lower is better)" in policy.plan().headline
        assert policy.plan().in_words[0].endswith(" EUR.")
    assert policy.plan().headline == before


def test_what_was_said_before_stays_said():
    with printoptions():
        set_printoptions(unit="kEUR")
        set_printoptions(step_name="day")
        assert "costs in kEUR" in solve(domains.make("mdp-4"), 0.1).plan().headline
    assert "EUR" not in solve(domains.make("mdp-4"), 0.1).plan().headline


@pytest.mark.parametrize("wrong", [{"step_name": ""}, {"unit": "a\nb"}, {"unit": 3}])
def test_names_are_words(wrong):
    with pytest.raises(OptionError, match="is no name"), printoptions(**wrong):
        pass
