"""Options of the command line as data: verbs declare them; argparse, completion and the reference read them. Options of
settings, such as `--batch`, follow from hwexplorer/settings.py."""

import argparse
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from hardware import precision as formats
from hardware.base.errors import RequestError, unknown
from hardware.base.errors import split_list as split_list
from hardware.base.text import exact_amount, parse_limit, parse_whole
from hardware.base.text import parse_amount as parse_amount
from hardware.engines.runtime import runtimes
from hwexplorer import settings as scenario_settings
from hwexplorer.export.files import FORMATS, SCREEN
from hwexplorer.views import layout

WIDTH = 96  # characters of a note in help


class Option(msgspec.Struct, frozen=True):
    """One option (`--top`) or, without dashes, one word; `settings` are argparse's (default, choices, nargs ..).

    An option named like a field of State sets that field; any other is passed by name to the report's `document`.
    The first line of `group` is the heading in help, further lines are a note. Only one of the options with the same
    `excludes` may be given. `singular` names an option whose value is used for a list that is not given. `in_shell` is
    the default on the command line only. An option that `is_model` names a model, and becomes its state; if it
    takes several words, only a single one that is no device does. One that `applies_to` a "batch" or a "load" is
    refused for the other. `unit` is that of an amount, which a person must write; a number from Python is in SI."""

    flags: tuple[str, ...]
    help: str
    settings: dict[str, Any]
    group: str = ""
    excludes: str = ""
    singular: str = ""
    in_shell: Any = None
    is_model: bool = False
    applies_to: str = ""
    unit: str = ""

    @property
    def name(self) -> str:
        """The name of its value in parsed arguments."""
        return str(self.settings.get("dest") or self.flags[-1].lstrip("-").replace("-", "_"))

    @property
    def is_word(self) -> bool:
        """True for a word without dashes, known by its position."""
        return not self.flags[0].startswith("-")

    @property
    def usage(self) -> str:
        """The word in a usage line, in brackets if it may be left out."""
        word = str(self.settings.get("metavar") or self.name.upper())
        word += " .." * (self.settings.get("nargs") in ("*", "+"))
        return word if self.is_required else f"[{word}]"

    @property
    def takes_value(self) -> bool:
        """True if a value follows the flag."""
        return not (self.is_word or str(self.settings.get("action", "")).startswith("store_"))

    @property
    def default(self) -> Any:
        """The value if the option is not given."""
        return self.settings.get("default", False if self.settings.get("action") == "store_true" else None)

    @property
    def is_required(self) -> bool:
        """True for a word or an option that must be given."""
        return bool(self.settings.get("required")) or (self.is_word and "nargs" not in self.settings)

    def write(self, value: object) -> str:
        """Return a value as a person types it."""
        if isinstance(value, tuple):
            return ",".join(map(str, value))
        return exact_amount(value, self.unit) if self.unit and isinstance(value, float | int) else str(value)

    def read(self, value: Any, text_of: Callable[[object], str]) -> Any:
        """Return a value from Python as the command line would read it; `text_of` writes one value as a person types
        it. Raises RequestError."""
        write = self.write if self.unit else text_of
        action = self.settings.get("action")
        if action == "store_true":
            return True
        is_several = isinstance(value, Iterable) and not isinstance(value, str)
        texts = list(map(write, value)) if is_several else [write(value)]
        if action == "append" or self.settings.get("nargs") in ("*", "+"):
            return [self._read_text(text) for text in texts]
        return self._read_text(",".join(texts))

    def _read_text(self, text: str) -> Any:
        choices = self.settings.get("choices")
        if choices is not None and text not in choices:
            raise unknown(self.flags[0].lstrip("-").replace("_", " "), text, map(str, choices))
        return self.settings.get("type", str)(text)

    def value_in(self, arguments: argparse.Namespace) -> Any:
        """Return the value of the option in parsed arguments; its default in those of another verb."""
        value = getattr(arguments, self.name, self.default)
        if value is None and self.singular and getattr(arguments, self.singular) is not None:
            return (getattr(arguments, self.singular),)
        return self.in_shell if value is None else value


def option(*flags: str, help: str, **settings: Any) -> Option:
    """Declare an option; `settings` are fields of `Option`, or those of argparse."""
    option_fields = {name: settings.pop(name) for name in Option.__struct_fields__ if name in settings}
    if unit := option_fields.get("unit"):
        settings["type"] = _limit(unit)
    return Option(flags, help, settings, **option_fields)


def choice(flag: str, values: tuple[str, ...], *, help: str = "", **settings: Any) -> Option:
    """Declare an option with a few values, which its help lists."""
    listing = f"{', '.join(values[:-1])} or {values[-1]}" if len(values) > 1 else values[0]
    return option(flag, choices=values, help=f"{help}: {listing}" if help else listing, **settings)


def add_options(parser: argparse.ArgumentParser, options: tuple[Option, ...]) -> None:
    """Put the options on a parser, under their headings."""
    places: dict[str, Any] = {"": parser}
    for added_option in options:
        if added_option.excludes and added_option.excludes not in places:
            places[added_option.excludes] = parser.add_mutually_exclusive_group()
        if added_option.group not in places:
            title, _, note = added_option.group.partition("\n")
            places[added_option.group] = parser.add_argument_group(title, "\n".join(layout.wrap(note, WIDTH)) or None)
        places[added_option.excludes or added_option.group].add_argument(
            *added_option.flags,
            help=added_option.help.replace("%", "%%") or argparse.SUPPRESS,
            **added_option.settings,
        )


def list_runtimes() -> str:
    """Return all runtimes, a line each: the name that --runtime takes, the software, and what it runs on."""
    rows = [(each.id, each.name, ", ".join((*each.vendors, *each.runs_on))) for each in runtimes().values()]
    return "".join(f"{name:23} {software:45} {places}\n" for name, software, places in rows)


def whole(least: int = 1, most: int = scenario_settings.BATCH_MAX) -> Callable[[str], int]:
    """Return a converter of whole numbers from `least` to `most`."""
    return lambda text: parse_whole(text, least, most)


def name_list(what: str) -> Callable[[str], tuple[str, ...]]:
    """Return a converter of `a,b,c` to its parts, each once."""

    def convert(text: str) -> tuple[str, ...]:
        """Return the parts of a text."""
        parts = tuple(dict.fromkeys(split_list(text)))
        if not parts:
            raise RequestError(f"no {what} in {text[:40]!r}: expected a list, e.g. 1,2,4")
        return parts

    return convert


def whole_list(what: str, most: int) -> Callable[[str], tuple[int, ...]]:
    """Return a converter of `1,2,4` to whole numbers up to `most`, ascending."""

    return lambda text: tuple(sorted(set(map(whole(1, most), name_list(what)(text)))))


def amounts(what: str, unit: str) -> Callable[[str], tuple[float, ...]]:
    """Return a converter of `1,2.5,4` to amounts of this unit, ascending."""
    return lambda text: tuple(sorted({parse_amount(part, unit) for part in name_list(what)(text)}))


def _limit(unit: str) -> Callable[[str], float]:
    """Return a converter of limits in this unit."""

    def convert(text: str) -> float:
        """Return the limit in SI. Raises RequestError for one that nothing can keep."""
        if (value := parse_limit(text, unit)) <= 0:
            raise RequestError(f"{text[:40]!r}: expected more than 0")
        return value

    return convert


def amount(unit: str) -> Callable[[str], float]:
    """Return a converter of amounts of this unit."""
    return lambda text: parse_amount(text, unit)


def precisions(text: str) -> tuple[str, ...]:
    """Convert a list of precisions to canonical names, each once."""
    return tuple(dict.fromkeys(map(formats.canonical, name_list("precision")(text))))


_MODEL_HELP = "a model (`hwexplorer models` lists them), a file of your own, or a state string"
MODEL = option("model", help=_MODEL_HELP, is_model=True)


def _of_setting(setting: scenario_settings.Setting) -> Option:
    """Return the option of a setting. Its help also lists the choices that the setting's help does not mention."""
    listing = ""
    settings: dict[str, Any] = {"metavar": setting.metavar, "dest": setting.name}
    if isinstance(
        setting, scenario_settings.NumberSetting | scenario_settings.PrecisionSetting | scenario_settings.LoadSetting
    ):
        settings["type"] = setting.parse
    else:
        settings["choices"] = setting.choices()
        others = [word for word in (setting.listed or setting.choices)() if word not in setting.help]
        listing = f": {', '.join(others)}" if others else ""
    flags = setting.flags or (f"--{setting.name.replace('_', '-')}",)
    help = f"{setting.help}{listing} (default {setting.default_text})"
    return Option(flags, help, settings, setting.group or "what is evaluated")


_OF_SETTINGS = {name: _of_setting(setting) for name, setting in scenario_settings.SETTINGS.items()}
PRECISION, IMAGE_SIZE = _OF_SETTINGS["precision"], _OF_SETTINGS["image_size"]
INPUT = tuple(each for each in _OF_SETTINGS.values() if each.name not in ("execution", "layout", "load"))
SCENARIO = tuple(_OF_SETTINGS.values())
_DEVICES_HELP = "device ids, id:power_mode, id@400W, id@1400MHz, or classes (`hwexplorer devices`)"
ON_ONE = option("--on", metavar="DEV", help="a device id, id:power_mode, id@400W, or class (`hwexplorer devices`)")
ON_SEVERAL = option("--on", metavar="DEV,..", help=_DEVICES_HELP)
NODE = option("--node", metavar="PATH", help="a subgraph or operator (default: the model)")
BASELINE = option("--baseline", metavar="DEV", help="the device others are compared with (default: the GPU)")
_output = partial(option, group="output")
ALL = _output("--all", action="store_true", help="text in full: every row, column and section")


def output_options(*exports: str) -> tuple[Option, ...]:
    """Return the options of the output; `exports` are formats of one report alone."""
    formats = (*FORMATS, *exports)
    return (
        ALL,
        _output("--format", choices=(*formats, SCREEN), metavar="F", help=f"{', '.join(formats)} (default text)"),
        _output("-o", "--output", metavar="FILE", help="write here; the suffix picks the format"),
        _output("--schema", action="store_true", help="print the schema of the JSON, and nothing else"),
        _output("--ascii", action="store_true", help="ASCII characters only, as a terminal without Unicode gets"),
    )


OUTPUT = output_options()

DEVICES_DIR = option(
    "--devices-dir", action="append", default=[], type=Path, metavar="DIR", help="a folder of your device files"
)


def or_default(of: Option, default: str | None) -> Option:
    """Return an option as a word that may be left out."""
    return msgspec.structs.replace(of, settings={**of.settings, "nargs": "?", "default": default})


_own = partial(option, group="your own model (file.py:factory, package.module:factory, file.pt2, file.onnx)")
_INPUTS = (
    _own("--input", action="append", metavar="SHAPE",
         help="e.g. 1x3x224x224, 1x128:int64, mask=1x128:bool; repeatable"),
    _own("--batch-dim", help="dimension of the inputs that is the batch, or none (default 0)", metavar="N"),
)  # fmt: skip
_own = partial(option, group=(
    "how it is captured\n"
    "The model's code runs with all your rights in a process of its own, under limits of time and memory: that is no "
    "sandbox. A stored capture is used until its source files or packages change; changes of data files or of the "
    "environment are not noticed."
))  # fmt: skip
_LIMITS = (
    _own("--time-limit", help="time that capturing may take (default 120s)", unit="s", metavar="S"),
    _own("--memory-limit", help="of all processes that capture it (default 8GiB)", unit="byte", metavar="SIZE"),
    _own("--show-output", help="show on stderr what the model's code prints", action="store_true"),
    _own("--again", help="capture again, even if a capture is stored", action="store_true"),
    _own("--strict", help="exit 1 if an operator has no cost rule", action="store_true"),
    _own("--run-code", help="capture a model that a state string names", action="store_true"),
)  # fmt: skip
CAPTURE = (*_INPUTS, *_LIMITS)
# Other verbs capture a model too; help of `capture` alone explains how.
OWN_MODEL = (*_INPUTS, *(msgspec.structs.replace(limit, help="", group="") for limit in _LIMITS))
_of_load = partial(option, applies_to="load")
LOAD_LIMITS = (
    _of_load("--max-ttft", unit="s", metavar="S", help="of a load: 99 % of first tokens come within, as 1s"),
    _of_load("--max-tpot", unit="s", metavar="S", help="of a load: 99 % of other tokens come within, as 30ms"),
)
