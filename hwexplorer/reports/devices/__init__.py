"""List the devices, or show one with the source of each fact."""

from hwexplorer.declare import Group

VERB = Group(by_words={1: "device"}, shown=("", "h100_sxm"))
