"""`hwexplorer concurrency`: stages, critical path, parallelism, hardware units each subgraph can use."""

from hwexplorer.commands.report_of_model import arguments, run

__all__ = ["arguments", "run"]
