"""`hwexplorer why`: why a node costs what it costs."""

from hwexplorer.commands.view import arguments, run

__all__ = ["arguments", "run"]
