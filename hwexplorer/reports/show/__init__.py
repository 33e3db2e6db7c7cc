"""Show one aspect of a model on a device."""

from hwexplorer.declare import Group

VERB = Group(shown=("energy resnet50 --on h100_sxm", "kernels resnet50 --on h100_sxm"))
