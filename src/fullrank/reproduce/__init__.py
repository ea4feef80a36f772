"""The four papers as data: one TOML per table or figure, the published numbers beside it, and one engine that runs them.

``fullrank reproduce --list`` names them; ``fullrank reproduce kr20-table3`` prints measured beside published. Add a table
with a TOML under ``experiments/`` and, where numbers were printed, a CSV under ``published/``.
"""

from .catalogue import Experiment, experiment, experiments
from .engine import Result, run, run_all, time_spent

__all__ = ["Experiment", "Result", "experiment", "experiments", "run", "run_all", "time_spent"]
