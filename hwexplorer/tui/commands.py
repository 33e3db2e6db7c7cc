"""The `:` line: the table of the screen's own commands, from which help, completion and KEYS.md come, settings
(`batch 32`, `on tpu`, `at fc`), and every verb of the shell.

A verb is run on the state on screen: `:show kernels`, `:why h100_sxm tpu_v4`, `:sweep --batches 1,8`. Tab completes; up
and down recall earlier lines.
"""

import re
import shlex
from collections.abc import Callable, Iterable
from functools import partial
from glob import glob
from pathlib import Path

import msgspec

from analysis.document import Column
from analysis.model.names import targets
from hardware.base import errors, file_access
from hwexplorer import registry
from hwexplorer import state as states
from hwexplorer.declare import Report, takes_model
from hwexplorer.export.files import SCREEN
from hwexplorer.export.sheet import Sheet
from hwexplorer.settings import SETTINGS, Setting, defaults_of, labels
from hwexplorer.state import preferred, replace
from hwexplorer.tui import palette
from hwexplorer.tui.keys import EditedLine
from hwexplorer.tui.session.saved_sessions import SavedSession, SavedSessions
from hwexplorer.tui.session.session import Session, SheetOpened
from hwexplorer.views import plain

SHELL_ONLY = ("open",)  # verbs that only the shell takes
Run = Callable[[Session, list[str]], object]
Complete = Callable[[Session], Iterable[str]]


class LineCommand(msgspec.Struct, frozen=True):
    """`complete` returns the words that may follow the name."""

    usage: str
    help: str
    run: Run
    complete: Complete | tuple[str, ...] = ()


def _one_word(words: list[str], example: str) -> str:
    if len(words) != 1:
        raise errors.RequestError(f"expected one word, e.g. {example}")
    return words[0]


def _apply(session: Session, **changes: object) -> None:
    session.apply(replace(session.state, **changes))


def _set_field(name: str, example: str) -> Run:
    return lambda session, words: _apply(session, **{name: _one_word(words, f"{name} {example}")})


def _change_setting(setting: Setting, session: Session, words: list[str]) -> None:
    text = _one_word(words, f"{setting.name} {next(iter(setting.choices()))}")
    if text == "default":  # the default of the model
        value = defaults_of(session.state.model)[setting.name]
    else:
        try:
            value = setting.parse(text)
        except errors.RequestError as error:
            raise errors.RequestError(f"{setting.title}: {error}") from None
    if setting.name == "image_size":  # it changes the model, whose heaviest part may then be another
        session.apply(session.with_model(session.state.model, value))
    else:
        _apply(session, **{setting.name: value})


def _setting_command(setting: Setting, name: str) -> LineCommand:
    text = f"{setting.help} (default {setting.default_text})"
    run = partial(_change_setting, setting)
    return LineCommand(f"{name} {setting.metavar}", text, run, lambda session: setting.choices())


def _load_model(session: Session, words: list[str]) -> None:
    """Load a model. A model with inputs is the user's own file. Its code may run, in its own process, because the user
    typed the name here; a name in a state string or a session runs nothing."""
    if not words:
        raise errors.RequestError("expected a name, e.g. model vit_b_16 or model net.py:make 1x3x224x224")
    name, at, settings = words[0].partition("@")
    state = session.with_model(session.provider.resolve_model_name(name, tuple(words[1:])))
    state = states.with_setting(state, settings) if at else state
    if session.provider.ready(state) and session.provider.is_edited(state):
        session.capture(state)  # the screen keeps the old capture until the new one is ready
    else:
        session.apply(state, session.history if state == session.state else None)


def _find_device(session: Session, name: str) -> str:
    """Return the spelling of a device among those compared, or `name` if it is not one of them."""
    key = session.provider.device_key
    return next((d for d in session.state.devices if d == name or key(d) == key(name)), name)


def _compared_device(session: Session, name: str, role: str) -> str:
    device = _find_device(session, name)
    if device not in session.state.devices:
        raise errors.unknown(role, device, session.state.devices)
    return device


def _go_to_device(session: Session, words: list[str]) -> None:
    if len([part for word in words for part in errors.split_list(word)]) > 1:
        _choose_devices(session, words)
        return
    device = _find_device(session, _one_word(words, "on tpu_v4"))
    devices = session.state.devices if device in session.state.devices else (*session.state.devices, device)
    _apply(session, devices=devices, on=device)


def _choose_devices(session: Session, words: list[str]) -> None:
    if not words:
        session.request("devices")
        return
    devices = tuple(part for word in words for part in errors.split_list(word))
    names: dict[str, str] = {}
    for name in devices:
        other = names.setdefault(session.provider.device_key(name), name)
        if other != name:
            raise errors.RequestError(f"{other} and {name} are the same device: name it once")
    _apply(session, devices=devices, on=preferred(devices), baseline=preferred(devices))


def _add_device(session: Session, words: list[str]) -> None:
    name = _one_word(words, "add l4")
    device = _find_device(session, name)
    if device in session.state.devices:
        raise errors.RequestError(f"{device} is there already")
    _apply(session, devices=(*session.state.devices, name))


def _remove_device(session: Session, words: list[str]) -> None:
    device = _compared_device(session, words[0] if words else session.state.on, "device")
    if len(session.state.devices) == 1:
        raise errors.RequestError("the last device cannot be removed")
    _apply(session, devices=tuple(d for d in session.state.devices if d != device))


def _go_to_node(session: Session, words: list[str]) -> None:
    name = "" if not words or words[0] in ("/", session.state.model) else words[0]
    place = session.index.place
    if name not in place:  # the end of a path is enough if only one node has it
        ends = [key for key in place if key.endswith(("." + name, "/" + name))]
        if len(ends) != 1:
            raise errors.unknown("node", name, place)
        name = ends[0]
    session.move_to(name)


def _pin(session: Session, words: list[str]) -> None:
    if not words:
        session.request("pin")
        return
    state = replace(session.state, pin=_one_word(words, "pin tpu_v4@b8,fp16"))
    states.pinned(state)  # raises RequestError if the pin is wrong
    session.apply(state)


def _lay_trace(session: Session, words: list[str]) -> None:
    if len(words) > 1:
        run_verb(session, ["trace", *words])
        return
    if words:
        from hwexplorer.views.tree_view import trace_annex

        trace_annex()
        file_access.stamp(words[0])  # raises the error here instead of in the tree
    state = replace(session.state, trace="".join(words), pane="tree")
    session.apply(session.provider.under_traced_runtime(state))


def _play_wavefront(session: Session, words: list[str]) -> None:
    if words:
        _go_to_node(session, words)
    session.request("wavefront")


def _set_theme(session: Session, words: list[str]) -> None:
    theme = _one_word(words, "theme light")
    if theme not in palette.THEMES:
        raise errors.unknown("theme", theme, palette.THEMES)
    session.request("theme", theme)


def _saved_sessions(session: Session) -> SavedSessions:
    if session.saved_sessions is None:
        raise errors.RequestError("there is no folder for sessions")
    return session.saved_sessions


def _save(session: Session, words: list[str]) -> None:
    name = _one_word(words, "save monday")
    _saved_sessions(session).save(name, session.state, session.figures())
    session.say(f"saved as {name}: `:load {name}` or `hwexplorer open --session {name}` brings it back", "good")


def _open_state(session: Session, text: str) -> None:
    session.apply(states.parse(text))
    if note := states.reading_note(text):
        session.say(note, "warn")


SESSION_COLUMNS = tuple(
    Column(key, {"name": "Session", "date": "Saved"}.get(key, key.title()), role="text", keep=2 * (key == "devices"))
    for key in ("name", "model", "settings", "figures", "date", "devices")
)


def _session_cells(saved: SavedSession) -> tuple[str, ...]:
    """Return the cells of a session after its name. If its state is no longer valid, the first is its text."""
    try:
        state = states.parse(saved.state)
    except errors.RequestError:
        return saved.state, "", saved.figures, saved.date, ""
    settings = " ".join(text for text, _ in labels(state))
    return state.model, settings, saved.figures, saved.date, ", ".join(state.devices)


def _list_sessions(session: Session, words: list[str]) -> None:
    saved = session.saved_sessions.all() if session.saved_sessions is not None else {}
    if not saved:
        raise errors.RequestError("no session is saved yet: `:save NAME` saves one")
    rows = tuple(plain.Row(name, (name, *_session_cells(one)), leads=one.state) for name, one in saved.items())
    sheet = Sheet(f"{len(saved)} saved", "", plain.Table("sessions", "Sessions", SESSION_COLUMNS, rows))
    session.emit(SheetOpened("sessions", sheet, states.parse))


def run_verb(session: Session, words: list[str]) -> None:
    """Run a verb of the shell on the present state, or on the model in the words as the shell does: at once if it is a
    view that does not take long, else in the background."""
    from hwexplorer.tui.session.jobs import VerbJob

    has_model = _has_model(session, words)
    verb, *rest = registry.resolve(words) if has_model else _resolve(words)
    width = session.size[0] - 4
    if not rest and session.views is not None and not session.slices.grew(5.0):  # it makes more than is kept
        sheet = session.provider.sheet(session.state, verb, width)
        if sheet is not None:
            session.emit(SheetOpened(verb, sheet, words=tuple(words)))
            return
    declaration = registry.load(verb)
    if isinstance(declaration, Report) and not {"--format", "-o", "--output"} & set(rest):
        rest = [*rest, "--format", SCREEN]
    if takes_model(declaration) and not has_model and not (verb == "sweep" and "--all" in rest):
        rest = ["--model", states.format(replace(session.state, open=())), *rest]

    def finish(job: VerbJob) -> None:
        """Show what the verb printed, or say that it wrote a file."""
        sheet = job.sheet()
        if sheet.text:
            session.emit(SheetOpened(verb, sheet, words=tuple(words)))
        else:
            session.say(f"{' '.join(words)}: done", "good")

    session.start(VerbJob([*registry.full_name(verb).split(), *rest], width, finish))


def _has_model(session: Session, words: list[str]) -> bool:
    """Return True if a word is a model, with or without settings."""
    names = [word.partition("@")[0] for word in words]
    return "--model" in words or not {*names, *(name.partition(":")[0] for name in names)}.isdisjoint(_models(session))


def _resolve(words: list[str]) -> list[str]:
    """Resolve the verb or section that the words begin with. The state on screen takes the place of a model's name."""
    verb, *rest = words
    members = registry.sections(verb)
    if verb not in members or (rest and rest[0] in members) or not takes_model(registry.load(verb)):
        return registry.resolve(words)
    section, _, *others = registry.resolve([verb, "model", *rest])
    return [section, *others]


def _files(*patterns: str) -> list[str]:
    """Return the files here whose paths match a pattern."""
    return sorted(path for pattern in patterns for path in glob(pattern))


def _own_models() -> Iterable[str]:
    """Yield the models here: functions of Python files, files of graphs and weights, folders with a configuration."""
    left = PYTHON_MAX
    for path in map(Path, _files("*.py")):
        left -= path.stat().st_size if path.is_file() else 0
        yield from (f"{path}:{name}" for name in (targets.defined(path) if left > 0 else [""]))
    yield from _files("*.onnx", "*.pt2", "*.gguf")
    yield from (f"hf:{path.removesuffix('/config.json')}" for path in _files("*/config.json"))


def _models(session: Session) -> list[str]:
    return [row.key for row in session.cache.view("models", session.state).rows]


def _catalogue(session: Session) -> list[str]:
    return session.provider.device_names(session.state)


def _compared_devices(session: Session) -> Iterable[str]:
    return session.state.devices


def _session_names(session: Session) -> list[str]:
    try:
        return list(session.saved_sessions.all()) if session.saved_sessions is not None else []
    except errors.RequestError:
        return []


COMMANDS: dict[str, LineCommand] = {
    **{name: _setting_command(setting, name) for name, setting in SETTINGS.items()},
    "serve": _setting_command(SETTINGS["load"], "serve"),  # `load` opens a saved state
    "model": LineCommand("model NAME [INPUT..]", "open one; your own: net.py:make 1x3x224x224", _load_model,
        lambda session: [*_own_models(), *_models(session)]),
    "on": LineCommand("on DEV", "go to a device, or add it", _go_to_device, _catalogue),
    "devices": LineCommand("devices [DEV,..]", "choose the devices, or name them", _choose_devices, _catalogue),
    "add": LineCommand("add DEV", "one device more", _add_device, _catalogue),
    "remove": LineCommand("remove [DEV]", "one device less", _remove_device, _compared_devices),
    "baseline": LineCommand("baseline DEV", "the device that the others are compared with",
        lambda session, words: _apply(
            session, baseline=_compared_device(session, _one_word(words, "baseline h100_sxm"), "baseline")),
        _compared_devices),
    "at": LineCommand("at NODE", "go to a node of the tree; the end of its path is enough", _go_to_node,
        lambda session: session.index.place),
    "sort": LineCommand("sort KEY", ", ".join(states.SORTS), _set_field("sort", "share"), states.SORTS),
    "by": LineCommand("by KIND", "divide the tree by: " + ", ".join(states.BYS),
        lambda session, words: _apply(session, by=_one_word(words, "by module"), at="", open=()), states.BYS),
    "rank": LineCommand("rank KEY", "order of the devices", _set_field("rank", "edp"), states.RANKS),
    "metric": LineCommand("metric M", ", ".join(states.METRICS), _set_field("metric", "energy"), states.METRICS),
    "trace": LineCommand("trace [FILE]", "show a measured trace beside the tree; without a file, none", _lay_trace,
        lambda _: _files("*.json", "*.json.gz", "*.sqlite")),
    "limits": LineCommand("limits [L<5ms ..]",
        "limits of devices: L latency, E energy, P power, M memory",
        lambda session, words: _apply(session, limits=" ".join(words))),
    "plot": LineCommand("plot [KIND]", ", ".join(states.PLOTS),
        lambda session, words: _apply(session, pane="why", plot=_one_word(words or ["roofline"], "plot batch")),
        states.PLOTS),
    "pin": LineCommand("pin [DEV@SETTINGS]", "what deltas are against", _pin, _compared_devices),
    "state": LineCommand("state STRING", "open a screen from its state string",
        lambda session, words: _open_state(session, _one_word(words, "state 'resnet50@b8,fp16'"))),
    "export": LineCommand("export FILE", "write this view; .svg: the screen",
        lambda session, words: session.request("export", _one_word(words, "export resnet50.json"))),
    "theme": LineCommand("theme NAME", ", ".join(palette.THEMES), _set_theme, palette.THEMES),
    "save": LineCommand("save NAME", "keep this state", _save,
        lambda session: [re.sub(r"\W+", "_", session.state.model), *_session_names(session)]),
    "load": LineCommand("load NAME", "a saved state",
        lambda session, words: _open_state(session, _saved_sessions(session).state_string(*words[:1])), _session_names),
    "sessions": LineCommand("sessions", "saved states", _list_sessions),
    "device": LineCommand("device [DEV]", "show its facts, each with its source",
        lambda session, words: session.do_sheet(*words[:1]), _catalogue),
    "wavefront": LineCommand("wavefront [NODE]", "play an operator as it runs on every device", _play_wavefront,
        lambda session: session.index.place),
    "mission": LineCommand("mission FILE", "run several models at their rates on one module, within its power",
        lambda session, words: run_verb(session, ["mission", *words]),
        lambda _: _files("*.toml", "examples/missions/*.toml")),
    "quit": LineCommand("quit", "leave", lambda session, words: session.request("quit")),
}  # fmt: skip
ALIASES = {
    "q": "quit", "w": "export", "e": "state", "b": "batch", "p": "precision", "size": "image_size",
}  # fmt: skip


def names() -> list[str]:
    """Return the sorted names of all commands, and of the verbs that this line takes."""
    return sorted({*COMMANDS, *(verb for verb in registry.verbs() if verb not in SHELL_ONLY)})


LINES_MAX = 200
SUGGESTIONS_MAX = 6  # completions in the note
PYTHON_MAX = 1 << 16  # bytes that are read for their functions at each key; the user types those of further files


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
            session.say(f"{text[:60]}: no change", "dim")
    except errors.RequestError as error:
        session.say(str(error), "bad")
    except Exception as error:
        session.report_failure(error)


def _run(session: Session, words: list[str]) -> None:
    if words[0] == "hwexplorer":  # a line of the shell
        words = words[1:] if registry.is_verb("".join(words[1:2])) else ["state", *words[1:]]
    name = words[0].replace("-", "_")
    name = ALIASES.get(name, name)
    if name in COMMANDS:
        COMMANDS[name].run(session, words[1:])
    elif name in SHELL_ONLY:
        raise errors.RequestError(f"{name} works in the shell only")
    elif registry.is_verb(name):
        run_verb(session, [name, *words[1:]])
    else:
        raise errors.unknown("command", name, names())


def completions(session: Session, text: str) -> list[str]:
    """Return the lines that the text may become; words that begin with the last one typed come first."""
    name, space, rest = text.partition(" ")
    if not space:
        return _fitting(name, names())
    command = COMMANDS.get(ALIASES.get(name.replace("-", "_"), name.replace("-", "_")))
    before, space, typed = rest.rpartition(" ")
    head, comma, last = typed.rpartition(",")
    words: Iterable[str] = ()
    if command is None:
        words = (*([] if space else registry.sections(name)), *_options(session, name))
    elif not space:
        words = command.complete(session) if callable(command.complete) else command.complete
    elif name == "model" and ".py:" in before:
        words = ("1x3x224x224",)
    return [f"{name} {before}{space}{head}{comma}{word}" for word in _fitting(last, words) if word != name]


def _options(session: Session, verb: str) -> Iterable[str]:
    """Yield the options of a verb, each with a value that may follow; those of a load first if there is one."""
    options = registry.load(verb).options if verb in registry.names() else ()
    unwanted = "batch" if session.state.load else "load"
    for option in sorted(options, key=lambda option: not option.applies_to):
        flag, example = option.flags[-1], option.help.rpartition(": ")[2].rpartition("as ")[2]
        choices = option.settings.get("choices") or [example] * bool(option.unit and " " not in example)
        if option.applies_to != unwanted and not option.is_word:
            yield from (f"{flag}={choice}" for choice in choices) if option.takes_value else (flag,)


def _fitting(start: str, words: Iterable[str]) -> list[str]:
    candidates = list(words)
    fitting = [candidates[place] for place in errors.matching_places(start, candidates)]
    return sorted(fitting, key=lambda word: not word.casefold().startswith(start.casefold()))


def describe(session: Session, text: str) -> str:
    """Return the note for a text: its completions, or the usage and help of its command."""
    if not text.strip():
        return "tab completes · batch 32 · on tpu_v4 · at fc · show kernels"
    lines = completions_by_word(session, text)
    name, space, _ = text.partition(" ")
    command = COMMANDS.get(name)
    if lines and (space or command is None) and [*lines] != [name]:
        shown, room = [*lines][:SUGGESTIONS_MAX], session.size[0] - len(text) - len("  +999 · enter runs it") - 8
        while len(shown) > 1 and len("  ".join(shown)) > room:
            shown.pop()
        return "  ".join(shown) + f"  +{len(lines) - len(shown)}" * (len(lines) > len(shown))
    if command is not None:
        return f"{command.usage}: {command.help}"
    return registry.helps().get(name, "")


def completions_by_word(session: Session, text: str) -> dict[str, str]:
    """Return the possible lines, keyed by their last word. Return {} if a name in the text is unknown."""
    try:
        return {line.rpartition(" ")[2]: line for line in completions(session, text)}
    except errors.RequestError:
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
