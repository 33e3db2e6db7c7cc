"""`hwexplorer tree`: model, subgraphs and operators with their energy-delay product."""

from hwexplorer.commands.view import arguments, run

__all__ = ["arguments", "run"]
