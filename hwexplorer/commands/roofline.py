"""`hwexplorer roofline`: every kernel under its roofs: what bounds it, what would flip it."""

from hwexplorer.commands.view import arguments, run

__all__ = ["arguments", "run"]
