"""The device catalogue, or one device with the source of every fact."""

from hwexplorer.declare import Group

VERB = Group(by_words={1: "device"}, shown=("", "h100_sxm"))
