"""One aspect of a model on a device: energy, events, mapping, memory, roofline, concurrency, a plot; coefficients."""

from hwexplorer.declare import Group

VERB = Group(shown=("energy resnet50 --on h100_sxm", "roofline resnet50 --on h100_sxm"))
