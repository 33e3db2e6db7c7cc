"""`hwexplorer events`: architectural energy events of a node."""

from hwexplorer.commands.view import arguments, run

__all__ = ["arguments", "run"]
