"""Change facts of a device: see what matters, match another device, search designs."""

from hwexplorer.declare import Group


def _choose(words: list[str]) -> list[str]:
    """Return `DEVICE MODEL ..` as the words of a section: with --match B a crossover, with --grid a design search."""
    if len(words) < 2 or words[0].startswith("-") or words[1].startswith("-"):
        return ["knobs", *words]
    device, model, *rest = words
    match, rest = _take(rest, "--match")
    if match:
        return ["crossover", model, device, match, *rest]
    grid, rest = _take(rest, "--grid")
    if grid:
        return ["design", "--base", device, "--workload", model, "--knobs", grid, *rest]
    return ["knobs", model, "--on", device, *rest]


def _take(words: list[str], flag: str) -> tuple[str, list[str]]:
    """Return the value of an option, '' if it is absent, and the other words."""
    for place, word in enumerate(words):
        if word.startswith(f"{flag}="):
            return word.partition("=")[2], [*words[:place], *words[place + 1 :]]
        if word == flag and place + 1 < len(words):
            return words[place + 1], [*words[:place], *words[place + 2 :]]
    return "", words


VERB = Group(
    choose=_choose,
    shown=(
        "kpu_t256 resnet50 --knob clock_hz",
        "xeon_8490h resnet50 --match h100_sxm --knob memory_bandwidth",
        "kpu_t256 resnet50 --grid units=64..1024,array=8..64",
    ),
)
