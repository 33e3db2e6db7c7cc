"""List the devices, or show one with the source of each fact."""

from hwexplorer.declare import Group

VERB = Group(
    choose=lambda words: ["device" if words and not words[0].startswith("-") else "devices", *words],
    shown=("", "h100_sxm"),
)
