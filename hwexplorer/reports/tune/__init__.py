"""Change facts of a device: see what matters, turn one, search designs."""

from hwexplorer.declare import Group


def _choose(words: list[str]) -> list[str]:
    """Return `DEVICE MODEL ..` as the words of a section: with --grid a design search, else the curve of a fact."""
    if len(words) < 2 or words[0].startswith("-") or words[1].startswith("-"):
        return ["tune", *words]
    device, model, *rest = words
    flags = [word.partition("=")[0] for word in rest]
    if "--grid" not in flags:
        return ["tune", model, "--on", device, *rest]
    place = flags.index("--grid")
    rest[place] = rest[place].replace("--grid", "--knobs", 1)
    return ["design", "--base", device, "--workload", model, *rest]


VERB = Group(
    choose=_choose,
    shown=("kpu_t256 resnet50 --knob clock_hz", "kpu_t256 resnet50 --grid units=64..1024,array=8..64"),
)
