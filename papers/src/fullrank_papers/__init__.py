"""The four papers as data: one TOML per table or figure, the published numbers beside it, and one engine that runs them.

The library is used as anyone would use it, by its public names: so the tables certify what users run.

``fullrank-papers --list`` names them; ``fullrank-papers kr20-table3`` prints measured beside published. Add a table with
a TOML under ``experiments/`` and, where numbers were printed, a CSV under ``published/``.
"""

from .catalogue import Experiment, experiment, experiments
from .engine import Result, run, run_all, time_spent

__all__ = ["Experiment", "Result", "experiment", "experiments", "run", "run_all", "time_spent"]
