"""The command palette: it finds tasks, actions, models, devices, verbs, settings and terms by words, and does them."""

from collections.abc import Callable, Iterator
from functools import cached_property, partial

import msgspec

from analysis.document import Column
from analysis.model.names.model_ref import phases
from hardware.base.errors import fold_name, matching_places
from hardware.base.text import quantity
from hwexplorer import registry
from hwexplorer.state import replace
from hwexplorer.text import terms
from hwexplorer.tui import commands, keys
from hwexplorer.tui.overlays.overlay_screen import Host, OverlayScreen
from hwexplorer.tui.prompts import CommandPrompt
from hwexplorer.tui.session.session import Session, TextOpened
from hwexplorer.tui.widgets.framed_pane import FramedPane
from hwexplorer.tui.widgets.status_lines import Prompt
from hwexplorer.tui.widgets.tree_table import TreeTable
from hwexplorer.views import plain

# Commands that would list all devices once more, and commands that the user completes with a text.
_REPEAT = ("model", "devices", "add", "remove", "baseline", "device")
_TAKES_TEXT = ("model", "limits", "trace")
# Scores of how well a text fits (0 to 1), and what each kind of item adds: tasks come before terms.
IS_IT, BEGINS, HAS_WORDS, HOLDS, IN_HELP, IS_LIKE = 1.0, 0.9, 0.8, 0.6, 0.4, 0.3
RECENT_MAX = 5  # items that the palette shows again, the last one first
TASK, ACTION, LINE, TERM = 0.6, 0.3, 0.2, -0.3
OWN_MODEL = "a model with its settings, or your own: net.py:make 1x3x32x32, m.onnx, llama3_8b:decode"
# Common tasks: title, further search words, and an action or the beginning of a `:` line.
TASKS = (
    ("Open a model ..", "load another network llm", "models"),
    ("Open a model of your own ..", "load file.py:factory pytorch torch onnx gguf pt2 hf file mine", ":model "),
    ("Add a device ..", "choose remove chip accelerator gpu cpu tpu hardware", "devices"),
    ("Set a limit ..", "limits budget at most maximum power memory latency energy constraint", "devices"),
    ("Find the cheapest within limits ..", "search cost price least budget fleet", ":search "),
    ("Why is it slow", "bottleneck limited bound expensive explain cause", "why"),
    ("What to change: advise", "faster cheaper optimise improve suggestion", "advise"),
    ("Change the batch ..", "batch size inputs at once throughput", ":batch "),
    ("Compare the devices", "table side by side against best chip", "pane_compare"),
    ("Compare with what is on screen now: pin it", "difference delta before after", "pin"),
    ("What if the chip were different: turn its facts", "knobs bandwidth clock units memory double", "pane_knobs"),
    ("Play an operator on every device", "wavefront film animation cycles systolic domain flow", "wavefront"),
    ("Run two products as one stream on each device", "chained fused products wavefront", ":show wavefront"),
    ("Run a mission: several models on one module ..", "drone robot battery hours watt deadlines rates", ":mission "),
    ("Find an operator ..", "search layer row node", "find"),
    ("Lay a measured trace beside the tree ..", "profile profiler kineto nsight measured", ":trace "),
    ("Change the colours ..", "color colour look scheme", ":theme "),
    ("Export this view ..", "save file json csv html svg picture report write", "export"),
    ("Keep what is on screen ..", "save session state", ":save "),
    ("Restore a session ..", "saved last load state", "sessions"),
)
PHASE_TASKS = {
    "request": ("Time to first token: open the request phase", "ttft tpot latency prompt tokens serving llm"),
    "decode": ("Time per output token: open the decode phase", "tpot generate generation tokens llm"),
    "prefill": ("The prompt: open the prefill phase", "prefill context tokens llm"),
    "serve": ("A service: requests that arrive and wait", "load rate concurrency queue p99 goodput serving llm"),
}


class PaletteItem(msgspec.Struct, frozen=True):
    """Something to do, found by its title, by further `words` or by its help. `rank` is added to its score."""

    title: str
    help: str
    run: Callable[[], object]
    words: str = ""
    rank: float = ACTION

    def score(self, typed: str) -> float:
        """Return how well the item fits what is typed, its rank included: 0 (not at all) to 1."""
        typed, own = typed.casefold(), f"{self.title}\n{self.words}".casefold()
        words = typed.split()
        if typed in own.split("\n"):
            fits = IS_IT
        elif any(line.startswith(typed) for line in own.split("\n")):
            fits = BEGINS
        elif all(any(other.startswith(word) for other in own.split()) for word in words):
            fits = HAS_WORDS
        elif all(word in own for word in words):
            fits = HOLDS
        elif all(word in self.help.casefold() for word in words):
            fits = IN_HELP
        elif self.rank == LINE and len(typed) > 2 and matching_places(typed, (self.words, *self.words.split())):
            fits = HOLDS if fold_name(typed) in fold_name(self.words) else IS_LIKE / len(self.words)  # shorter first
        else:
            return 0.0
        return (fits + self.rank) / (IS_IT + TASK)


class PaletteItems:
    """Tasks, actions, verbs, terms, and the `:` lines with every completion: models, devices, plots, nodes, settings,
    themes, sessions."""

    def __init__(
        self, session: Session, keymap: keys.Keymap, ask: Callable[[Prompt], None], has_models_only: bool
    ) -> None:
        self._session, self._has_models_only = session, has_models_only
        self._ask = lambda line: ask(CommandPrompt(session, line))  # a text to be completed
        pane = session.state.pane
        here = [action for action in keymap.actions if not action.panes or pane in action.panes]
        actions = [_action_item(session, action, action.title, action.title, ACTION) for action in here]
        self._first, self._verbs = [*_task_items(session, keymap, self._ask), *actions], _verb_items(session)

    @cached_property
    def _all(self) -> list[PaletteItem]:
        models = [*_model_items(self._session)]
        if self._has_models_only:
            return models
        lines = _line_items(self._session, self._ask)
        return [*self._first, *_term_items(self._session), *models, *lines, *self._verbs]

    def find(self, typed: str) -> list[PaletteItem]:
        """Return the items that fit a text, the best first; if it is empty, the last ones done, tasks, actions and
        verbs. A text that fits nothing may be a model with settings, or the user's own file."""
        typed = typed.strip()
        if self._has_models_only and not typed:
            return self._all
        if not typed:
            recent = [item for title in self._session.recent for item in self._all if item.title == title]
            return [*recent, *(item for item in (*self._first, *self._verbs) if item not in recent)]
        scored = [(item.score(typed), item) for item in self._all]
        fitting = [item for score, item in sorted(scored, key=lambda one: -one[0]) if score]
        open_it = partial(commands.submit, self._session, f"model {typed.removeprefix('model ')}")
        return fitting or [PaletteItem(f"Open {typed}", OWN_MODEL, open_it)]


def _task_items(session: Session, keymap: keys.Keymap, ask: Callable[[str], None]) -> list[PaletteItem]:
    """Return the tasks. If a language model is on screen, its tasks come first."""
    on_screen = phases(session.state.model)
    named = on_screen or phases("llama3_8b")
    lines = {phase: f"model {named[phase]}" for phase in PHASE_TASKS}
    of_phases = [
        PaletteItem(title, line, partial(commands.submit, session, line), f"{phase} {words}", TASK)
        for (phase, line), (title, words) in zip(lines.items(), PHASE_TASKS.values(), strict=True)
    ]
    items = [
        PaletteItem(title, f"types {does.strip()} for you", partial(ask, does[1:]), words, TASK)
        if does.startswith(":")
        else _action_item(session, keymap.by_id[does], title, f"{title} {words}", TASK)
        for title, words, does in TASKS
    ]
    return [*of_phases, *items] if on_screen else [*items, *of_phases]


def _action_item(session: Session, action: keys.Action, title: str, words: str, rank: float) -> PaletteItem:
    def perform() -> None:
        """Do the action, in its first pane if this one does not have it."""
        if action.panes and session.state.pane not in action.panes:
            session.apply(replace(session.state, pane=action.panes[0]))
        session.request(action.id)

    return PaletteItem(f"{title} ({keys.keys_text(action)})", action.help, perform, words, rank)


def _term_items(session: Session) -> Iterator[PaletteItem]:
    for term, says in terms.meanings().items():
        text = plain.Text("help", term, ((term, (says,)),))
        run = partial(session.emit, TextOpened("help", term, text))
        yield PaletteItem(f"term: {term}", says, run, term, TERM)


def _verb_items(session: Session) -> list[PaletteItem]:
    """Return items for verbs and their sections, about what is on screen."""
    verbs = (verb for verb in commands.names() if verb not in commands.COMMANDS)
    lines = {registry.full_name(name): name for verb in verbs for name in registry.sections(verb) or (verb,)}
    runs = {line: partial(commands.submit, session, line) for line in lines}
    return [PaletteItem(line, registry.help_of(lines[line]), run, line, LINE) for line, run in runs.items()]


def _line_items(session: Session, ask: Callable[[str], None]) -> Iterator[PaletteItem]:
    """Yield items for commands and their completions. A command that takes a text opens the `:` line."""
    captions = _device_captions(session)
    helps: dict[str, str] = {}
    for name, known in sorted(commands.COMMANDS.items()):
        if name in _TAKES_TEXT or (" " in known.usage and "[" not in known.usage):
            yield PaletteItem(f"{name} ..", known.help, partial(ask, f"{name} "), name, LINE)
        else:
            helps[name] = known.help
        if name not in _REPEAT:
            helps |= dict.fromkeys(map(str.strip, commands.completions(session, f"{name} ")), known.help)
    for line, says in helps.items():
        title, about, does = captions.get(line, (line, says, line))
        yield PaletteItem(title, about, partial(commands.submit, session, does), line, LINE)


def _model_items(session: Session) -> Iterator[PaletteItem]:
    """Yield an item for each model, with its parameters and MACs."""
    table = session.cache.view("models", session.state)
    columns = {column.key: place for place, column in enumerate(table.columns)}
    for row in table.rows:
        figures = (("parameters", "SI", " parameters"), ("macs", "MAC", ""))
        cells = [(row.cells[columns[key]], unit, word) for key, unit, word in figures if key in columns]
        known = [quantity(float(cell), unit) + word for cell, unit, word in cells if isinstance(cell, plain.NUMBERS)]
        open_it = partial(commands.submit, session, line := f"model {row.key}")
        yield PaletteItem(f"Open {row.key}", ", ".join(known), open_it, line, LINE)


def _device_captions(session: Session) -> dict[str, tuple[str, str, str]]:
    """Return title, help and command for each line that goes to a device. A device that is not there is added, while
    the screen stays where it is."""
    table, there = session.provider.devices(session.state), session.state.devices
    place = next((place for place, column in enumerate(table.columns) if column.key == "name"), 0)
    names = {row.key: row.cells[place] for row in table.rows}
    return {
        f"on {key}": (f"Go to {name}", key, f"on {key}") if key in there else (f"Add {name}", key, f"add {key}")
        for key, name in names.items()
    }


class CommandPalette(OverlayScreen):
    """Lists what fits the typed words. Its keys are the keys of its prompt; enter or a click does the item."""

    content: TreeTable

    def __init__(self, host: Host, has_models_only: bool = False) -> None:
        self.content = TreeTable(tree=False)
        super().__init__(host, "palette", self.content)
        self._items = PaletteItems(host.session, host.keymap, host.ask, has_models_only)
        self.pane.heading = "Models" if has_models_only else "Commands"
        self.prompt = PalettePrompt(self)
        self.fill("")

    def fill(self, typed: str) -> None:
        """Show the items that fit a text, with the cursor on the best."""
        self._found = self._items.find(typed)
        rows = tuple(plain.Row(str(place), (item.title, item.help)) for place, item in enumerate(self._found))
        heads = {"what": self.pane.heading.removesuffix("s"), "help": "What it does"}
        columns = tuple(Column(key, head, role="text", keep=0) for key, head in heads.items())
        self.content.update(plain.Table("palette", self.pane.heading, columns, rows))
        words, shown = [item.words for item in self._found], f"model {self.session.state.model.partition(':')[0]}"
        self.content.go(str(words.index(shown)) if not typed and shown in words else "0")
        self.pane.remark = f"{len(rows)} found" if typed else ""
        self.pane.redraw()

    @property
    def item(self) -> PaletteItem:
        """The item under the cursor."""
        return self._found[self.content.cursor]

    def run_item(self) -> None:
        """Close the palette, then do the item under the cursor."""
        self.close()
        item, recent = self.item, self.session.recent
        recent[:] = [item.title, *(title for title in recent if title != item.title)][:RECENT_MAX]
        item.run()

    def on_framed_pane_clicked(self, at: FramedPane.Clicked) -> None:
        """Do the item that was clicked."""
        if (key := self.content.key_at(at.y)) is not None:
            self.content.go(key)
            self.run_item()


class PalettePrompt(Prompt):
    """Takes the words to find."""

    label = "find"

    def __init__(self, palette: CommandPalette) -> None:
        super().__init__(palette.session)
        self._palette, self.rows = palette, palette.pane

    def note(self) -> str:
        """Return the whole help of the item, which its row may cut."""
        return f"enter: {self._palette.item.help}"

    def follow(self, text: str) -> None:
        """List the items that fit the words."""
        self._palette.fill(text)

    def enter(self) -> None:
        """Do the item under the cursor."""
        self._palette.run_item()

    def leave(self) -> None:
        """Close the palette."""
        self._palette.close()
