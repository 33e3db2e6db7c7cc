"""The command line: headless verbs, and the start of the screen. Only the requested verb is imported.

Exit codes: 0 done, 1 a correct request failed, 2 the request was wrong (one line on stderr), 128 + n
ended by signal n.
"""

import argparse
import gc
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any, NoReturn

from hardware.base.errors import RequestError, nearest, unknown
from hwexplorer import registry
from hwexplorer.export.files import FORMATS, SCREEN
from hwexplorer.process import output, signals
from hwexplorer.process.unused_modules import import_without_unused
from hwexplorer.version import VERSION

# Flags that stand for a verb or for its first word. Other spellings of flags are in analysis/model/names/zoo.py.
_MODEL, _DEVICES, _LIST, _EXPLAIN = "--model", "--on", "--list-", "--explain-difference"
_LISTS = ("models", "devices")


class _Parser(argparse.ArgumentParser):
    """Errors are one line with the nearest match, raised rather than printed with a usage block."""

    def __init__(self, name: str = "", **settings: Any) -> None:
        form = argparse.RawDescriptionHelpFormatter
        super().__init__(f"hwexplorer {name}".rstrip(), formatter_class=form, allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        """Raise RequestError with the message of argparse in our words."""
        what, required, words = message.partition("the following arguments are required: ")
        if required:
            what = f"no {words.replace(', ', ' or ')} is given (`{self.prog} --help` shows examples)"
        raise RequestError(what)

    def _print_message(self, message: str, file: Any = None) -> None:
        """Write help or version. argparse would ignore that they cannot be written."""
        if message:
            output.put(message)

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """Return the value of an argument. argparse would hide the message of a RequestError, which is a ValueError."""
        try:
            return self._registry_get("type", action.type, action.type)(arg_string)
        except RequestError as error:
            raise argparse.ArgumentError(action, str(error)) from None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            what = (action.option_strings or [action.dest])[0].lstrip("-").replace("_", " ")
            raise unknown(what, value, [str(choice) for choice in action.choices if choice != SCREEN])


def parse(words: list[str]) -> argparse.Namespace:
    """Return the parsed words. The first word that is not an option is the verb, or a model to open. Folders of devices
    are added to the catalogue."""
    if "--completion" in words[:1]:
        from hwexplorer import completion

        shell = _overview().parse_args(words).completion
        return argparse.Namespace(verb="completion", run=lambda _: output.put(completion.script(shell)))
    if {"-h", "--help", "--version"} & set(words) and all(word.startswith("-") for word in words):
        if words != ["--version"]:  # the version needs no list of verbs
            _overview().parse_args(words)
        return argparse.Namespace(verb="version", run=lambda _: output.put(f"hwexplorer {VERSION}\n"))
    import_without_unused("numpy")
    from hwexplorer import answer, engine, options
    from hwexplorer.declare import Group, Verb, takes_model

    if {("--runtime", "list"), ("--execution", "list")} & {*pairwise(words)}:
        return argparse.Namespace(verb="runtimes", run=lambda _: output.put(options.list_runtimes()))
    found = registry.find(_with_verb(words))
    verb, words = found.declaration, found.words
    is_help = bool({"-h", "--help"} & {*words})
    parser = _Parser(found.title, description=_summary(found), epilog=_epilog(found) if is_help else "")
    if isinstance(verb, Group):
        parser.usage = f"hwexplorer {found.title} [SECTION] .."
        return parser.parse_args(["--help"])
    print_report = partial(answer.print_report, found.name)
    words_in_usage = "".join(f" {option.usage}" for option in verb.all_options() if option.is_word)
    parser.usage = f"hwexplorer {found.title}{words_in_usage} [options]"
    run: Callable[[argparse.Namespace], None] = print_report
    if isinstance(verb, Verb):
        run = verb.run
    elif "--schema" in words:  # which needs no model
        return argparse.Namespace(verb=found.name, run=lambda _: answer.print_schema(found.name))
    elif (run_report := verb.run) is not None:
        run = lambda arguments: run_report(arguments, print_report)  # noqa: E731
    options.add_options(parser, (*verb.all_options(), options.DEVICES_DIR))
    parser.set_defaults(verb=found.name, run=run)
    words = [_flag(word, parser) for word in words]
    if takes_model(verb) and _MODEL not in parser._option_string_actions:
        words = _with_model_first(words)
    if folders := re.findall("--devices-dir[=\0]([^\0]+)", "\0".join(words)):  # devices after --on may be there
        engine.use_folders(list(map(Path, folders)))
    arguments, wrong = parser.parse_known_intermixed_args(_with_joined_devices(words))
    if wrong:
        raise _wrong_word(wrong[0], words, found.title, parser)
    return arguments


def _with_verb(words: list[str]) -> list[str]:
    """Return the words with the verb that a flag stands for: `--list-models` is `models`, `--list-gpus` is
    `devices --arch gpu`."""
    flag = next((word for word in words if word == _EXPLAIN or word.startswith(_LIST)), None)
    if flag is None:
        return words
    rest, kind = [word for word in words if word != flag], flag.removeprefix(_LIST)
    verb = ["why"] if flag == _EXPLAIN else [kind] if kind in _LISTS else ["devices", "--arch", kind.removesuffix("s")]
    return [*verb, *(rest[1:] if rest and registry.is_verb(rest[0]) else rest)]


def _with_model_first(words: list[str]) -> list[str]:
    """Return the words with the value of `--model` first, for a verb whose first word is the model."""
    for place, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if flag == _MODEL and (equals or place + 1 < len(words)):
            end = place + 1 if equals else place + 2
            return [value or words[place + 1], *words[:place], *words[end:]]
    return words


def _with_joined_devices(words: list[str]) -> list[str]:
    """Return the words with `--on A B` as `--on A,B`, as far as the words after `--on` name devices."""
    if _DEVICES not in words:
        return words
    from hwexplorer.engine import is_device

    first_device = words.index(_DEVICES) + 1
    others = takewhile(lambda word: not word.startswith("-") and is_device(word), words[first_device + 1 :])
    end = first_device + 1 + len(list(others))
    return [*words[:first_device], ",".join(words[first_device:end]), *words[end:]] if end > first_device + 1 else words


def _summary(found: registry.Found) -> str:
    """Return the help text of a verb: its purpose, its defaults, and where its examples are."""
    from hwexplorer.declare import Group

    lines = [f"{found.help[:1].upper()}{found.help[1:]}."]
    verb = found.declaration
    if not isinstance(verb, Group) and any(option.name == "precision" for option in verb.all_options()):
        lines.append(
            "Default: batch 1, 16 bits (language models as they are stored), the usual runtime of each device."
        )
    return "\n".join([*lines, "Examples are at the end."])


def _epilog(found: registry.Found) -> str:
    """Return the help lines of the sections of a verb, except the section with the verb's name, and the examples."""
    from hwexplorer.declare import Group, example_words

    names = [name for name in registry.sections(found.title) if name != found.title]
    lines = [_help_line(f"{registry.full_name(name):20}", registry.help_of(name)) for name in names]
    if lines:
        lines = [f"sections (hwexplorer {found.title} SECTION --help for options):", *lines, ""]
    verb = found.declaration
    shown = verb.shown if isinstance(verb, Group) else example_words(verb)
    return "\n".join([*lines, "examples:", *(f"  hwexplorer {found.title} {words}".rstrip() for words in shown)])


def _help_line(name: str, help: str) -> str:
    """Return a line of a list, wrapped to the width that argparse uses."""
    from shutil import get_terminal_size  # imported late: takes a millisecond
    from textwrap import fill

    indent = " " * (len(name) + 3)
    return fill(help, get_terminal_size().columns - 2, initial_indent=f"  {name} ", subsequent_indent=indent)


def _flag(word: str, parser: _Parser) -> str:
    """Return an option in its usual spelling: `--Batch-Size=8` is `--batch=8`. Case, hyphens and dots do not matter."""
    flag, equals, value = word.partition("=")
    if not flag.startswith("--") or flag in parser._option_string_actions:
        return word
    if flag[2:] in FORMATS and not equals:  # --json
        return f"--format={flag[2:]}"
    from analysis.model.names import zoo

    usual_flag = zoo.option_name(flag, list(parser._option_string_actions))
    return f"--{usual_flag}{equals}{value}" if usual_flag else word


def _wrong_word(word: str, words: list[str], verb: str, parser: _Parser) -> RequestError:
    """Return the error for a word that the verb does not take: it may be an option of another verb, or the word after
    a misspelt section."""
    listing = f"`{parser.prog} --help` lists them"
    if near := nearest(words[0], [name for name in registry.sections(verb) if name != verb], cutoff=0.6):
        return RequestError(f"{verb} has no section {words[0][:80]!r}: did you mean {verb} {near[0]}?")
    if word.startswith("-"):
        flag = word.partition("=")[0]
        # A short word is not like a long option that does not contain it.
        flags = [name for name in parser._option_string_actions if flag[2:] in name or len(name) < len(flag) + 3]
        alike = [name for name in nearest(flag, flags, cutoff=0.6) if name.startswith("--") == flag.startswith("--")]
        takers = [
            registry.full_name(name)
            for name, report in registry.reports().items()
            if any(flag in option.flags for option in report.all_options())
        ]
        if takers:
            return RequestError(f"unknown option {flag!r}: {' or '.join(takers[:3])} has it ({listing})")
        return unknown("option", flag, alike, listing=listing)
    return RequestError(f"unexpected word {word[:80]!r} ({listing.replace('lists them', 'says what it takes')})")


def _overview() -> argparse.ArgumentParser:
    helps = registry.helps()
    lines: list[str] = []
    for task, verbs in {"used most": registry.FIRST, **registry.TASKS, "other": tuple(helps)}.items():
        help_lines = [_help_line(f"{name:12}", helps.pop(name)) for name in verbs if name in helps]
        lines += [f"{task}:", *help_lines] if help_lines else []
    parser = _Parser(
        usage="hwexplorer [MODEL | STATE | VERB] [options]",
        description="What neural networks cost on hardware, in a terminal.\n`hwexplorer MODEL` opens the screen.",
        epilog="\n".join(["hwexplorer VERB --help for options", "", *lines]),
    )
    parser.add_argument("--version", action="store_true", help="show the version")
    shells = ("bash", "zsh", "fish")
    says = f'print what completes words in {", ".join(shells)}: eval "$(hwexplorer --completion bash)"'
    parser.add_argument("--completion", choices=shells, metavar="SHELL", help=says)
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code. No traceback reaches the user unless HWEXPLORER_DEBUG is set."""
    if words is None:  # Python subprocesses (pools, their trackers) must import nothing of the current folder
        os.environ["PYTHONSAFEPATH"] = "1"
    if "_ARGCOMPLETE" in os.environ:
        from hwexplorer import completion

        completion.answer()
    try:
        with signals.handle_signals():
            arguments = parse(list(sys.argv[1:] if words is None else words))
            if arguments.verb != "open":  # the screen collects garbage from its first frame on
                gc.enable()
            arguments.run(arguments)
    except RequestError as error:
        return output.complain(str(error), 2)
    except signals.EndedBySignal as error:
        return output.complain(str(error), 128 + error.number)
    except BrokenPipeError:
        _discard_output()  # the reader went away, as `head` does
        return 0
    except output.OutputError as error:
        _discard_output()
        return output.complain(str(error), 1)
    except MemoryError:
        return output.complain("out of memory: this takes more than the system allows", 1)
    except Exception as error:
        if os.environ.get("HWEXPLORER_DEBUG"):
            raise
        return output.complain(f"internal error: {type(error).__name__}: {error} (HWEXPLORER_DEBUG=1 shows where)", 1)
    return 0


def _discard_output() -> None:
    """Discard standard output: Python flushes it at exit and would report the same error again."""
    if sys.stdout is not None:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
