"""Show one aspect of a model on a device."""

from hwexplorer.declare import Group

VERB = Group(shown=("events resnet50 --on h100_sxm", "kernels resnet50 --on h100_sxm"))
