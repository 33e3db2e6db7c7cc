"""Complete words in a shell, by argcomplete: `eval "$(hwexplorer --completion bash)"`, zsh alike; fish sources it.

The shell runs the program with the line that is typed. Only the verb of the line is loaded.
"""

import argparse
import os
import re
from collections.abc import Iterable

from argcomplete import autocomplete
from argcomplete.lexers import split_line
from argcomplete.shell_integration import shellcode

from hardware import precision as formats
from hwexplorer import options, registry
from hwexplorer.declare import Verb
from hwexplorer.options import Option


def script(shell: str) -> str:
    """Return the lines that a shell runs to complete words of the program."""
    return shellcode(["hwexplorer"], shell=shell) + "\n"


def answer() -> None:
    """Write the completions of the line in the environment, and end the process."""
    line, point = os.environ["COMP_LINE"], int(os.environ["COMP_POINT"])
    typed = split_line(line, point)[3][1:]
    parser, count = _parser(typed)
    start = re.match(rf"\s*\S+(\s+\S+){{{count}}}", line)
    if start is not None:  # argcomplete parses the words after those that select the verb
        os.environ["COMP_LINE"] = f"hwexplorer{line[start.end() :]}"
        os.environ["COMP_POINT"] = str(point - start.end() + len("hwexplorer"))
    autocomplete(parser, always_complete_options=False)


def _parser(typed: list[str]) -> tuple[argparse.ArgumentParser, int]:
    """Return the parser of the verb that the typed words select, and how many words select it."""
    verb = typed[0] if typed and registry.is_verb(typed[0]) else ""
    members = registry.sections(verb) if verb else ()
    section = typed[1] if len(typed) > 1 and typed[1] in members else ""
    name = section or verb or registry.OPEN
    names = registry.verbs() if not typed else members if typed == [verb] else ()
    parser = argparse.ArgumentParser("hwexplorer", allow_abbrev=False)
    declared = registry.load(name) if name in registry.names() else Verb(options=(), run=print)
    declared_options = (*declared.all_options(), options.DEVICES_DIR)
    if not any(option.is_word for option in declared_options):
        parser.add_argument("section", nargs="*", choices=names or None)
    options.add_options(parser, declared_options)
    values = {option.name: option_values(option) for option in declared_options}
    for action in parser._actions:
        words = (*(() if action.option_strings else names), *values.get(action.dest, ()))
        if words:
            action.completer = _Completer(words)  # type: ignore[attr-defined]
    return parser, bool(verb) + bool(section)


class _Completer:
    """Completes the last part of a list after commas."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = dict.fromkeys(words)

    def __call__(self, prefix: str, **_: object) -> list[str]:
        head, comma, start = prefix.rpartition(",")
        return [f"{head}{comma}{word}" for word in self.words if word.startswith(start)]


def option_values(option: Option) -> tuple[str, ...]:
    """Return the values to suggest for an option; empty if any text or a file is allowed."""
    metavar, convert = str(option.settings.get("metavar") or ""), option.settings.get("type")
    if choices := option.settings.get("choices"):
        return tuple(map(str, choices))
    if option.is_model or metavar in ("MODEL", "M,..", "TARGET"):
        return _models()
    if metavar.startswith("DEV") or (option.is_word and option.name == "device"):
        return _devices()
    return formats.NAMES if convert is options.precisions or option.name == "precision" else ()


def _models() -> tuple[str, ...]:
    from analysis.model.names import model_ref, zoo

    return (*model_ref.names(), *zoo.other_names())


def _devices() -> tuple[str, ...]:
    from hardware import known_architectures
    from hardware.device_catalog import load_devices
    from hwexplorer import engine

    return (*known_architectures.classes(), *(device.key for device in load_devices(engine.folders())[0]))
