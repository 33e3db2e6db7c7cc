"""Options of the command line as data: what a verb declares, and argparse, completion and the reference read."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from hardware import precision as formats
from hardware.amount import parse_amount
from hardware.errors import RequestError, unknown
from hardware.names import listed
from hardware.runtime import LAYOUTS, LIKE_FOR_LIKE
from hwexplorer.export.files import FORMATS, SCREEN
from hwexplorer.state import BATCH_MAX, EXECUTIONS, IMAGE_MAX, TOKENS_MAX, executions


class Option(msgspec.Struct, frozen=True):
    """One option (`--top`) or, without dashes, one word; `settings` are argparse's (default, choices, nargs ..).

    An option named like a field of State sets that field; any other is handed by its name to what makes the document.
    `group` is the heading it stands under, further lines of it are said below; of those with the same `excludes` only
    one may be given. `singular` is the option whose one value a list has where the list is not given; `in_shell` what
    it is on the command line alone where it is not given. What `is_model` names a model, and becomes its state."""

    flags: tuple[str, ...]
    help: str
    settings: dict[str, Any]
    group: str = ""
    excludes: str = ""
    singular: str = ""
    in_shell: Any = None
    is_model: bool = False

    @property
    def name(self) -> str:
        return str(self.settings.get("dest") or self.flags[-1].lstrip("-").replace("-", "_"))

    @property
    def is_word(self) -> bool:
        """Without dashes: known by its place."""
        return not self.flags[0].startswith("-")

    @property
    def long_flags(self) -> tuple[str, ...]:
        return tuple(flag for flag in self.flags if flag.startswith("--"))

    @property
    def default(self) -> Any:
        """What it is where it is not given."""
        return self.settings.get("default", False if self.settings.get("action") == "store_true" else None)

    def given(self, arguments: argparse.Namespace) -> Any:
        """What it is on the command line."""
        value = getattr(arguments, self.name)
        if value is None and self.singular and getattr(arguments, self.singular) is not None:
            return (getattr(arguments, self.singular),)
        return self.in_shell if value is None else value


def option(
    *flags: str,
    help: str,
    group: str = "",
    excludes: str = "",
    singular: str = "",
    in_shell: Any = None,
    is_model: bool = False,
    **settings: Any,
) -> Option:
    return Option(flags, help, settings, group, excludes, singular, in_shell, is_model)


def choice(flag: str, values: tuple[str, ...], *, help: str = "", **settings: Any) -> Option:
    """An option with a few values, which its help lists."""
    listed = ", ".join(values)
    return option(flag, choices=values, help=f"{help}: {listed}" if help else listed, **settings)


def add(parser: argparse.ArgumentParser, options: tuple[Option, ...]) -> None:
    """The options on a parser, under their headings."""
    places: dict[str, Any] = {"": parser}
    for each in options:
        if each.excludes and each.excludes not in places:
            places[each.excludes] = parser.add_mutually_exclusive_group()
        if each.group not in places:
            title, _, note = each.group.partition("\n")
            places[each.group] = parser.add_argument_group(title, note or None)
        places[each.excludes or each.group].add_argument(*each.flags, help=each.help, **each.settings)


# --- what is accepted -------------------------------------------------------------------------------------


def whole(least: int = 1, most: int = BATCH_MAX) -> Callable[[str], int]:
    """A converter for argparse. It must not raise a ValueError: argparse would hide the message."""

    def convert(text: str) -> int:
        # int() would also take 1_0, Arabic digits and line breaks, and refuse the longest numbers as no numbers.
        if not re.fullmatch(r"[+-]?[0-9]+", text):
            raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number (allowed: {least} to {most})")
        if len(text) > 12 or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text[:40]} is out of range (allowed: {least} to {most})")
        return int(text)

    return convert


def names(what: str, allowed: tuple[str, ...] = ()) -> Callable[[str], tuple[str, ...]]:
    """A converter of `a,b,c`: its parts, each once; those `allowed` where there are some."""

    def convert(text: str) -> tuple[str, ...]:
        parts = tuple(dict.fromkeys(listed(text)))
        if not parts:
            raise argparse.ArgumentTypeError(f"no {what} in {text[:40]!r}: a list like 1,2,4 is expected")
        for part in parts:
            if allowed and part not in allowed:
                raise argparse.ArgumentTypeError(str(unknown(what, part, allowed)))
        return parts

    return convert


def wholes(what: str, most: int) -> Callable[[str], tuple[int, ...]]:
    """A converter of `1,2,4`: its whole numbers, ascending."""

    def convert(text: str) -> tuple[int, ...]:
        return tuple(sorted(set(map(whole(1, most), names(what)(text)))))

    return convert


def amount(unit: str) -> Callable[[str], float]:
    """A converter of an amount of this unit: `100mJ`."""

    def convert(text: str) -> float:
        try:
            return parse_amount(text, unit)
        except RequestError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def precision(text: str) -> str:
    """A precision by any of its names."""
    try:
        return formats.canonical(text)
    except RequestError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def precisions(text: str) -> tuple[str, ...]:
    """Some precisions, each once."""
    return tuple(dict.fromkeys(map(precision, names("precision")(text))))


# --- what many verbs take ---------------------------------------------------------------------------------

_MODEL_HELP = "a model, a building block, or a state string"
_LENGTHS = "language models"
MODEL = option("model", help=_MODEL_HELP, is_model=True)
BATCH = option("--batch", type=whole(1, BATCH_MAX), metavar="N", help=f"inputs at once, 1-{BATCH_MAX} (default 1)")
PRECISION = option(
    "--precision",
    type=precision,
    metavar="P",
    help=f"{formats.LISTED} (default {formats.DEFAULT}, of language models {formats.LANGUAGE})",
)
EXECUTION = option(
    "--runtime", "--execution", dest="execution", choices=executions(), metavar="R",
    help="what runs it: auto (what one would deploy on each device), eager, compiled, fused, or a runtime: "
    f"{', '.join(executions()[len(EXECUTIONS) :])} (default auto)",
)  # fmt: skip
LIKE = option(
    "--like-for-like", dest="execution", action="store_const", const=LIKE_FOR_LIKE,
    help="every device by its ahead-of-time compiler, as --runtime fused",
)  # fmt: skip
LAYOUT = option("--layout", choices=LAYOUTS, metavar="L", help="nchw or channels_last (default nchw)")
IMAGE_SIZE = option("--image-size", type=whole(1, IMAGE_MAX), metavar="S", help="pixels (default: the weights')")
SEQUENCE = option(
    "--sequence", type=whole(1, TOKENS_MAX), metavar="N", help="new tokens (default: the phase's)", group=_LENGTHS
)
KV = option("--kv", type=whole(0, TOKENS_MAX), metavar="N", help="tokens in the cache (as --sequence)", group=_LENGTHS)
INPUT = (BATCH, PRECISION, IMAGE_SIZE, SEQUENCE, KV)
SCENARIO = (BATCH, PRECISION, EXECUTION, LIKE, LAYOUT, IMAGE_SIZE, SEQUENCE, KV)
_DEVICES_HELP = "device ids, id:power_mode, or classes (`hwexplorer devices`)"
ON_ONE = option("--on", metavar="DEV", help=_DEVICES_HELP)
ON_SEVERAL = option("--on", metavar="DEV,..", help=_DEVICES_HELP)
NODE = option("--node", metavar="PATH", help="a subgraph or operator (default: the model)")
TOP = option("--top", type=whole(1, 100_000), default=10, metavar="TOP", help="nodes listed (default 10)")
BASELINE = option("--baseline", metavar="DEV", help="the device others are compared with (default: the GPU)")
OUTPUT = (
    option("--format", choices=(*FORMATS, SCREEN), metavar="F", help=f"{', '.join(FORMATS)} (default text)"),
    option("-o", "--output", metavar="FILE", help="write here; the suffix picks the format"),
)

DEVICES_DIR = option(
    "--devices-dir", action="append", default=[], type=Path, metavar="DIR", help="a folder of your device files"
)


def or_default(of: Option, default: str | None) -> Option:
    """A word that may be left out."""
    return msgspec.structs.replace(of, settings={**of.settings, "nargs": "?", "default": default})
