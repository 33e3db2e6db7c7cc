"""The `:` line: settings (`batch 32`, `on tpu`, `at fc`), the screen's own commands, and every verb of the shell.

A verb is run on the state on screen: `:roofline`, `:explain h100_sxm tpu_v4`, `:sweep --batches 1,8`. Tab completes; up
and down recall earlier lines.
"""

import shlex
from collections.abc import Iterable

from hardware.base.errors import RequestError, matching_places, unknown
from hwexplorer import registry
from hwexplorer.tui.commands.command_table import ALIASES, COMMANDS, SHELL_ONLY, names, run_verb
from hwexplorer.tui.session.session import Session
from hwexplorer.tui.widgets.line_editor import EditedLine

LINES_MAX = 200
SUGGESTIONS_MAX = 6  # completions in the note


def submit(session: Session, text: str) -> None:
    """Run a line and add it to the history."""
    text = text.strip()
    if not text:
        return
    if not session.command_history or session.command_history[-1] != text:
        session.command_history = [*session.command_history[-LINES_MAX + 1 :], text]
    try:
        words = shlex.split(text)
    except ValueError as error:
        session.say(f"{error}: {text[:60]}".lower(), "bad")
        return
    before, events, session.message = session.state, session.event_count, None
    try:
        _run(session, words)
        if (session.state, session.event_count) == (before, events):
            session.say(f"{text[:60]}: already so", "dim")
    except RequestError as error:
        session.say(str(error), "bad")
    except Exception as error:
        session.report_failure(error)


def _run(session: Session, words: list[str]) -> None:
    if words[0] == "hwexplorer":  # a line of the shell
        words = ["help"] if not words[1:] else words[1:] if registry.is_verb(words[1]) else ["state", *words[1:]]
    name = words[0].replace("-", "_")
    name = ALIASES.get(name, name)
    if name in COMMANDS:
        COMMANDS[name].run(session, words[1:])
    elif name in SHELL_ONLY:
        raise RequestError(f"{name} works in the shell only")
    elif registry.is_verb(name):
        run_verb(session, [name, *words[1:]])
    else:
        raise unknown("command", name, names())


def completions(session: Session, text: str) -> list[str]:
    """Return the lines that the text may become; words that begin with the last one typed come first."""
    name, space, rest = text.partition(" ")
    if not space:
        return _fitting(name, names())
    command = COMMANDS.get(ALIASES.get(name.replace("-", "_"), name.replace("-", "_")))
    if command is None or " " in rest:
        sections = [section for section in registry.sections(name) if section != name]
        return [f"{name} {section}" for section in _fitting(rest, sections)] if " " not in rest else []
    head, comma, last = rest.rpartition(",")
    words = command.complete(session) if callable(command.complete) else command.complete
    return [f"{name} {head}{comma}{word}" for word in _fitting(last, words)]


def _fitting(start: str, words: Iterable[str]) -> list[str]:
    candidates = list(words)
    fitting = [candidates[place] for place in matching_places(start, candidates)]
    return sorted(fitting, key=lambda word: not word.casefold().startswith(start.casefold()))


def describe(session: Session, text: str) -> str:
    """Return the note for a text: its completions, or the usage and help of its command."""
    if not text.strip():
        return "tab completes · help lists · batch 32 · on tpu_v4 · at fc · roofline"
    lines = completions_by_word(session, text)
    name, space, _ = text.partition(" ")
    command = COMMANDS.get(name)
    if lines and (space or command is None):
        return "  ".join([*lines][:SUGGESTIONS_MAX]) + (
            f"  +{len(lines) - SUGGESTIONS_MAX}" if len(lines) > SUGGESTIONS_MAX else ""
        )
    if command is not None:
        return f"{command.usage}: {command.help}"
    return registry.helps().get(name, "")


def completions_by_word(session: Session, text: str) -> dict[str, str]:
    """Return the possible lines, keyed by their last word. Return {} if a name in the text is unknown."""
    try:
        return {line.rpartition(" ")[2]: line for line in completions(session, text)}
    except RequestError:
        return {}


def complete_line(session: Session, line: EditedLine, key: str) -> EditedLine:
    """Return the line after tab or shift+tab (next or previous completion), up or down (through the history)."""
    if key in ("up", "down"):
        return _recall(session, line, -1 if key == "up" else 1)
    stem = line.stem if line.stem is not None else line.text
    lines = [*completions_by_word(session, stem).values()]
    if not lines:
        return line
    step = 1 if key == "tab" else -1
    place = (lines.index(line.text) + step) % len(lines) if line.text in lines else 0 if step > 0 else -1
    text = lines[place]
    if len(lines) == 1 and " " not in text and text in COMMANDS and " " in COMMANDS[text].usage:
        return EditedLine(text + " ", len(text) + 1)
    return EditedLine(text, len(text), stem)


def _recall(session: Session, line: EditedLine, step: int) -> EditedLine:
    """Return the previous or next line of the history that begins with what was typed."""
    stem = line.stem if line.stem is not None else line.text
    past = [each for each in dict.fromkeys(session.command_history) if each.startswith(stem)] + [stem]
    here = past.index(line.text) if line.text in past else len(past) - 1
    text = past[max(0, min(len(past) - 1, here + step))]
    return EditedLine(text, len(text), stem)
