"""Change facts of a device: see what matters, turn one, search designs."""

from hwexplorer.declare import Group


def _choose(words: list[str]) -> list[str]:
    """Return `DEVICE MODEL ..` as the words of a section: with --grid a design search, of the model or of a --mission,
    else the curve of a fact."""
    flags = [word.partition("=")[0] for word in words]
    if len(words) < 2 or flags[0].startswith("-") or (flags[1].startswith("-") and "--mission" not in flags):
        return ["tune", *words]
    device, *rest = words
    subject = [] if flags[1].startswith("-") else ["--workload", rest.pop(0)]
    if "--grid" not in flags:
        return ["tune", *subject[1:], "--on", device, *rest]
    place = len(rest) - len(words) + flags.index("--grid")
    rest[place] = rest[place].replace("--grid", "--knobs", 1)
    return ["design", "--base", device, *subject, *rest]


VERB = Group(
    choose=_choose,
    shown=("kpu_t256 resnet50 --knob clock_hz", "kpu_t256 resnet50 --grid units=64..1024,array=8..64"),
)
