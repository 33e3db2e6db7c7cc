"""`hwexplorer mapping`: how a device runs a model: utilisation, bounds, and each kernel's grid."""

from hwexplorer.commands.view import arguments, run

__all__ = ["arguments", "run"]
