"""Show one aspect of a model on a device."""

from hwexplorer.declare import Group

VERB = Group(shown=("energy resnet50 --on h100_sxm", "roofline resnet50 --on h100_sxm"))
