"""Names of packages that are loaded at first use."""

import subprocess
import sys

CODE = """
import tailwise.exact.induction, tailwise.exact.intervals, tailwise.evaluation.sampled_planning
from tailwise.exact import backward_induction, policy_intervals, policy_risk
from tailwise.evaluation import sampled_planning
assert all(map(callable, (backward_induction, policy_intervals, policy_risk, sampled_planning)))
import tailwise.search.plan
assert tailwise.search.plan.__name__ == "tailwise.search.plan"
"""


def test_a_module_that_was_loaded_before_does_not_hide_a_function_of_its_name():
    found = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=300, check=False)
    assert found.returncode == 0, found.stderr
