"""What the `:` line knows besides the verbs of the shell, in one table: help, completion and KEYS.md come from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from analysis.document import Column
from hardware.errors import RequestError, unknown
from hardware.names import split_list
from hwexplorer import registry
from hwexplorer import state as states
from hwexplorer.export.files import SCREEN
from hwexplorer.export.sheet import Sheet
from hwexplorer.settings import SETTINGS, Setting, defaults_of
from hwexplorer.state import replace
from hwexplorer.tui.palette import THEMES
from hwexplorer.views.plain import Row, Table, Text

if TYPE_CHECKING:
    from hwexplorer.tui.session import Session

# Verbs that are not for this line.
NOT_HERE = ("open", "serve", "check")
Run = Callable[["Session", list[str]], None]
Complete = Callable[["Session"], Iterable[str]]


class Command(msgspec.Struct, frozen=True):
    usage: str
    help: str
    run: Run
    complete: Complete | tuple[str, ...] = ()


# --- settings ---------------------------------------------------------------------------------------------


def _one(words: list[str], usage: str) -> str:
    if len(words) != 1:
        raise RequestError(f"one word is expected, as in {usage}")
    return words[0]


def _field(name: str, example: str) -> Run:
    def run(session: Session, words: list[str]) -> None:
        session.apply(replace(session.state, **{name: _one(words, example)}))

    return run


def _change_setting(setting: Setting) -> Run:
    """A command that gives a setting a value; `default` is what the model has."""

    def run(session: Session, words: list[str]) -> None:
        text = _one(words, f"{setting.name} {next(iter(setting.choices()))}")
        if text == "default":
            value = defaults_of(session.state.model)[setting.name]
        else:
            try:
                value = setting.parse(text)
            except RequestError as error:
                raise RequestError(f"{setting.title}: {error}") from None
        if setting.name == "image_size":  # of a model, whose heaviest part may be another
            session.apply(session.with_model(session.state.model, value))
        else:
            session.apply(replace(session.state, **{setting.name: value}))

    return run


def _model(session: Session, words: list[str]) -> None:
    """Another model; with inputs one of the user's own, whose code may run (in a process of its own): it was named
    here, by hand, which a state string or a session is not."""
    if not words:
        raise RequestError("a name is expected, as in model vit_b_16 or model net.py:make 1x3x224x224")
    state = session.with_model(session.provider.named(words[0], tuple(words[1:])))
    if session.provider.ready(state) and session.provider.edited(state):
        session.capture(state)  # what is shown stays until the new one is there
    else:
        session.apply(state, session.history if state == session.state else None)


def _on(session: Session, words: list[str]) -> None:
    """To a device; one that is not compared yet is added."""
    name = _one(words, "on tpu_v4")
    spelt = next((d for d in session.state.devices if d == name), None) or _spelt(session, name)
    devices = session.state.devices if spelt in session.state.devices else (*session.state.devices, spelt)
    session.apply(replace(session.state, devices=devices, on=spelt))


def _spelt(session: Session, name: str) -> str:
    """How a device is spelt among those compared, by whatever name it was asked for."""
    key = session.provider.device_key(name)
    return next((d for d in session.state.devices if session.provider.device_key(d) == key), name)


def _devices(session: Session, words: list[str]) -> None:
    if not words:
        session.stage.perform("devices")
        return
    names = tuple(part for word in words for part in split_list(word))
    spelt: dict[str, str] = {}
    for name in names:
        other = spelt.setdefault(session.provider.device_key(name), name)
        if other != name:
            raise RequestError(f"{other} and {name} are the same device: name it once")
    session.apply(replace(session.state, devices=names, on=states.preferred(names), baseline=states.preferred(names)))


def _add(session: Session, words: list[str]) -> None:
    name = _one(words, "add l4")
    spelt = _spelt(session, name)
    if spelt in session.state.devices:
        raise RequestError(f"{spelt} is there already")
    session.apply(replace(session.state, devices=(*session.state.devices, name)))


def _remove(session: Session, words: list[str]) -> None:
    name = _spelt(session, words[0]) if words else session.state.on
    if name not in session.state.devices:
        raise unknown("device", name, session.state.devices)
    rest = tuple(d for d in session.state.devices if d != name)
    if not rest:
        raise RequestError("one device has to stay")
    on = session.state.on if session.state.on in rest else states.preferred(rest)
    baseline = session.state.baseline if session.state.baseline in rest else states.preferred(rest)
    session.apply(replace(session.state, devices=rest, on=on, baseline=baseline))


def _baseline(session: Session, words: list[str]) -> None:
    name = _spelt(session, _one(words, "baseline h100_sxm"))
    if name not in session.state.devices:
        raise unknown("baseline", name, session.state.devices)
    session.apply(replace(session.state, baseline=name))


def _at(session: Session, words: list[str]) -> None:
    name = words[0] if words else ""
    if name in ("/", session.state.model):
        name = ""
    place = session.unfolded.place
    if name not in place:  # the end of a path will do where it tells one node
        ends = [key for key in place if key.endswith(("." + name, "/" + name))]
        if len(ends) != 1:
            raise unknown("node", name, place)
        name = ends[0]
    session.move_to(name)


def _fold(session: Session, words: list[str]) -> None:
    session.fold(states._percent(_one(words, "fold 1").rstrip("%")))


def _pin(session: Session, words: list[str]) -> None:
    if not words:
        session.stage.perform("pin")
        return
    state = replace(session.state, pin=_one(words, "pin tpu_v4@b8,fp16"), diff=True)
    states.pinned(state)  # what is wrong with it is said here
    session.apply(state)


def _text(name: str) -> Run:
    def run(session: Session, words: list[str]) -> None:
        session.apply(replace(session.state, **{name: " ".join(words), "pane": "tree" if name == "find" else "models"}))
        if name == "find" and words:
            session.do_find(1)

    return run


def _plot(session: Session, words: list[str]) -> None:
    if words:
        session.apply(replace(session.state, plot=_one(words, "plot cumulative"), pane="plot"))
    else:
        session.apply(replace(session.state, pane="plot"))


def _state(session: Session, words: list[str]) -> None:
    session.apply(states.parse(_one(words, "state 'resnet50@b8,fp16'")))


# --- the program ------------------------------------------------------------------------------------------


def _export(session: Session, words: list[str]) -> None:
    session.stage.export(_one(words, "export resnet50.json"))


def _export_all(session: Session, words: list[str]) -> None:
    session.stage.export(_one(words, "export_all folder").rstrip("/") + "/")


def _theme(session: Session, words: list[str]) -> None:
    session.stage.do_theme(_one(words, "theme light"))


def _save(session: Session, words: list[str]) -> None:
    if session.keeper is None:
        raise RequestError("no place to save sessions in")
    name = _one(words, "save monday")
    session.keeper.save(name, session.state)
    session.say(f"saved as {name}: `:load {name}` or `hwexplorer open --session {name}` brings it back", "good")


def _load(session: Session, words: list[str]) -> None:
    if session.keeper is None:
        raise RequestError("no place to load sessions from")
    session.apply(session.keeper.state(words[0] if words else "last"))


def _sessions(session: Session, words: list[str]) -> None:
    kept = session.keeper.all() if session.keeper is not None else {}
    if not kept:
        raise RequestError("none is saved yet: `:save NAME` saves one")
    columns = (Column("name", "Session", role="text", keep=0), Column("state", "State", role="text", keep=0))
    rows = tuple(Row(name, (name, text), leads=text) for name, text in kept.items())
    session.stage.present("sessions", Sheet("Sessions", "", Table("sessions", "Sessions", columns, rows)), states.parse)


def _help(session: Session, words: list[str]) -> None:
    settings = tuple(f"{c.usage}\t{c.help}" for name, c in COMMANDS.items() if name not in registry.names())
    verbs = tuple(f"{name}\t{line}" for name, line in registry.helps().items() if name not in NOT_HERE)
    sections = (("On this screen", settings), ("Verbs, run on this state; options as in the shell", verbs))
    session.stage.show_text("commands", "Commands", Text("commands", "Commands", sections))


def run_verb(session: Session, words: list[str]) -> None:
    """A verb of the shell on this state: at once where it is a view, beside the screen where it takes a while."""
    from hwexplorer.tui.task import Task

    verb, *rest = _resolve(words)
    width = session.size[0] - 4
    if not rest and session.views is not None:
        sheet = session.provider.sheet(session.state, verb, width)
        if sheet is not None:
            session.stage.present(verb, sheet)
            return
    if registry.is_report(verb) and not {"--format", "-o", "--output"} & set(rest):
        rest = [*rest, "--format", SCREEN]
    if registry.takes_model(verb) and "--all" not in rest:
        shown = states.format(replace(session.state, at=states.node(session.state.at), open=()))
        rest = ["--model", shown, *rest] if registry.names_model(verb) else [shown, *rest]
    session.start(Task([verb, *rest], width))


def _resolve(words: list[str]) -> list[str]:
    """Return the words with the verb or section that they mean first; the state on screen stands for a model."""
    verb, *rest = words
    members = registry.sections(verb)
    if verb not in members or (rest and rest[0] in members) or not registry.takes_model(verb):
        return registry.resolve(words)
    section, _, *others = registry.resolve([verb, "model", *rest])
    return [section, *others]


def _go(pane: str) -> Run:
    def run(session: Session, words: list[str]) -> None:
        if words:
            run_verb(session, [pane, *words])
        else:
            session.apply(replace(session.state, pane=pane))

    return run


def _trace(session: Session, words: list[str]) -> None:
    """A measured trace beside the tree; with options the verb of that name."""
    if len(words) > 1:
        run_verb(session, ["trace", *words])
        return
    state = session.state
    if words:
        from hwexplorer.views.measured_times import state_with_trace

        state = state_with_trace(state, words[0])  # an error is shown here, not in the tree
    session.apply(replace(state, trace="".join(words), pane="tree"))


def _limits(session: Session, words: list[str]) -> None:
    session.apply(replace(session.state, limits=" ".join(words)))


def _device(session: Session, words: list[str]) -> None:
    session.do_sheet(words[0] if words else None)


def _perform(id: str) -> Run:
    return lambda session, words: session.stage.perform(id)


# --- what completes a line ------------------------------------------------------------------------------


def _models(session: Session) -> list[str]:
    return [row.key for row in session.cache.view("models", replace(session.state, filter="")).rows]


def _catalogue(session: Session) -> list[str]:
    return [row.key for row in session.provider.devices(session.state).rows]


def _saved(session: Session) -> list[str]:
    try:
        return list(session.keeper.all()) if session.keeper is not None else []
    except RequestError:
        return []


def _chosen(session: Session) -> Iterable[str]:
    return session.state.devices


def _nodes(session: Session) -> Iterable[str]:
    return session.unfolded.place


def _choices_of(setting: Setting) -> Complete:
    return lambda session: setting.choices()


COMMANDS: dict[str, Command] = {
    **{
        name: Command(
            f"{name} {setting.metavar}",
            f"{setting.help} (default {setting.default_text})",
            _change_setting(setting),
            _choices_of(setting),
        )
        for name, setting in SETTINGS.items()
    },
    "model": Command("model NAME [INPUT..]", "another; your own as net.py:make 1x3x224x224", _model, _models),
    "on": Command("on DEV", "the device under the cursor; added if it is new", _on, _catalogue),
    "devices": Command("devices [DEV,..]", "choose the devices, or name them", _devices, _catalogue),
    "add": Command("add DEV", "one device more", _add, _catalogue),
    "remove": Command("remove [DEV]", "one device less", _remove, _chosen),
    "baseline": Command("baseline DEV", "what the others are compared with", _baseline, _chosen),
    "at": Command("at NODE", "to a node of the tree; the end of its path will do", _at, _nodes),
    "find": Command("find TEXT", "rows: words, kind:conv share>5 bound:memory", _text("find")),
    "filter": Command("filter TEXT", "narrow the models", _text("filter")),
    "sort": Command("sort KEY", ", ".join(states.SORTS), _field("sort", "sort share"), states.SORTS),
    "rank": Command("rank KEY", "order of the devices", _field("rank", "rank edp"), states.RANKS),
    "metric": Command("metric M", ", ".join(states.METRICS), _field("metric", "metric energy"), states.METRICS),
    "fold": Command("fold PERCENT", "fold rows below this share; 0 folds none", _fold, ("0", "1", "5")),
    "heat": Command("heat", "the metric on every device in the tree, or not", _perform("heat")),
    "trace": Command("trace [FILE]", "a measured trace beside the tree; without a file none", _trace),
    "limits": Command(
        "limits [L<5ms ..]", "what devices are held against: L latency, E energy, P power, M memory", _limits
    ),
    "plot": Command("plot [KIND]", ", ".join(states.PLOTS), _plot, states.PLOTS),
    "pin": Command("pin [DEV@SETTINGS]", "what deltas are against", _pin, _chosen),
    "swap": Command("swap", "what is pinned comes on screen", _perform("swap")),
    "state": Command("state STRING", "any screen, from its one string", _state),
    "export": Command("export FILE", "this view; .svg the screen, a folder everything", _export),
    "export_all": Command("export_all FOLDER", "every view in every format", _export_all),
    "theme": Command("theme NAME", ", ".join(THEMES), _theme, THEMES),
    "save": Command("save NAME", "keep this state", _save, _saved),
    "load": Command("load NAME", "a saved state", _load, _saved),
    "sessions": Command("sessions", "saved states", _sessions),
    "device": Command("device [DEV]", "its sheet, with the source of every fact", _device, _catalogue),
    "undo": Command("undo", "undo the last change", _perform("undo")),
    "redo": Command("redo", "redo what was undone", _perform("redo")),
    "keys": Command("keys", "all keys", _perform("help")),
    "help": Command("help", "these commands", _help),
    "quit": Command("quit", "leave", _perform("quit")),
    **{pane: Command(pane, f"go to the {pane} pane", _go(pane)) for pane in states.PANES if pane != "plot"},
}
ALIASES = {"q": "quit", "w": "export", "e": "state", "b": "batch", "p": "precision", "size": "image_size"}


def names() -> list[str]:
    return sorted({*COMMANDS, *(verb for verb in registry.verbs() if verb not in NOT_HERE)})
