"""Explain a cost: of a node, of one device against another, or of a change."""

from hwexplorer.declare import Group

VERB = Group(
    by_words={2: "diff", 3: "explain", 4: "progression"},
    shown=(
        "resnet50 --on h100_sxm --node layer3",
        "resnet50 h100_sxm tpu_v4",
        "resnet50 cpu gpu tpu kpu",
        "before.json after.json",
    ),
)
