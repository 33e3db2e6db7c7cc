"""`hwexplorer memory`: what is held when, live at the peak, fits where, and what would save some."""

from hwexplorer.commands.report_of_model import arguments, run

__all__ = ["arguments", "run"]
