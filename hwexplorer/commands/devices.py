"""`hwexplorer devices`: the device catalogue."""

from hwexplorer.commands.models import arguments, run

__all__ = ["arguments", "run"]
