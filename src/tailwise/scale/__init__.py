"""The same work on many machines, by Ray: root-parallel searches, sweeps of episodes, the paper's experiments.

Work is cut into *tasks* that know nothing of each other. Each has a stream of its own, from the seed and its number, so
that what a task reports does not depend on which worker did it, or how often. A report is small (root statistics,
totals of episodes), and of each task one counts. See the page "How far it scales" of the documentation.
"""

from tailwise.scale.work import convergence_study, evaluate, plan, reproduce

__all__ = ["convergence_study", "evaluate", "plan", "reproduce"]
