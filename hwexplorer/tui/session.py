"""What is explored, without a screen: the state and its history, its views, limits, the work beside it.

`apply` computes the views of a state and only then has them shown, so what is on screen always belongs together, and a
request that cannot be met leaves everything as it was.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from analysis.model.names.model_ref import phases
from hardware.errors import RequestError
from hwexplorer import history as histories
from hwexplorer import state as states
from hwexplorer.history import History, push
from hwexplorer.state import EACH, FOLDS, MORE, PANES, State, node, replace
from hwexplorer.tui import changes, navigate
from hwexplorer.tui.answers import answer
from hwexplorer.tui.folding import more_key
from hwexplorer.tui.keymap import DEFAULT, Keymap
from hwexplorer.tui.layout import Box, arrange
from hwexplorer.tui.limits import Limits
from hwexplorer.tui.navigate import Index
from hwexplorer.tui.views import ALWAYS, READS, Cache, Views
from hwexplorer.tui.widgets.heads import EMPTY
from hwexplorer.views.plain import Table

if TYPE_CHECKING:
    from hwexplorer.provider import EngineProvider
    from hwexplorer.tui.job import Job
    from hwexplorer.tui.screen import Explorer
    from hwexplorer.tui.sessions import Sessions

TIMES = "×"  # in the name of a row of repeats


class Session:
    """`stage` is the screen that shows it, of which only types are known here. `failures` lists what should not have
    happened; tests hold it empty."""

    def __init__(
        self,
        state: State,
        provider: EngineProvider,
        stage: Explorer,
        keymap: Keymap = DEFAULT,
        keeper: Sessions | None = None,
        heaviest: bool = False,
    ) -> None:
        self.provider, self.stage = provider, stage
        self.keymap, self.keeper, self.heaviest = keymap, keeper, heaviest
        self.cache = Cache(provider)
        self.history = History(present=state)
        self.failures: list[str] = []
        self.limits = Limits()
        self.size = (0, 0)  # of the screen: what is in sight hangs on it
        self.said: tuple[str, str] | None = None  # text and role
        self.typed: list[str] = []  # lines after `:`
        self.jobs: list[Job] = []
        self.views: Views | None = None
        self._indices: list[Index] = []
        if provider.ready(state):  # a state that cannot be shown ends before the screen opens
            if heaviest and not (state.at or state.open):
                state = replace(state, by="module", sort="share")
                state = navigate.at_heaviest(state, Index(self.cache.view("tree", state)))
            state, self.views = self._unhidden(state, self.cache.views(state))
            self.views.make(ALWAYS)
            self.history = History(present=state)

    @property
    def state(self) -> State:
        return self.history.present

    @property
    def index(self) -> Index:
        """The tree as shown, small rows folded."""
        return self._indexed(self.views.tree if self.views else EMPTY)

    @property
    def unfolded(self) -> Index:
        """All of the tree."""
        return self._indexed(self.views.unfolded if self.views else EMPTY)

    def _indexed(self, table: Table) -> Index:
        for index in self._indices:
            if index.table is table:
                return index
        self._indices = [Index(table), *self._indices[:1]]
        return self._indices[0]

    def in_sight(self, state: State, size: tuple[int, int] | None = None) -> dict[str, Box]:
        """Where the panes of a state are, by default on the screen as it is."""
        return arrange(*(size or self.size), state.pane, state.zoom, len(state.devices)).boxes

    def wanted(self, state: State) -> tuple[str, ...]:
        """The views that are in sight in a state."""
        seen = self.in_sight(state)
        return tuple(name for name in dict.fromkeys((*READS, *PANES)) if name in ALWAYS or name in seen)

    # --- state --------------------------------------------------------------------------------------------

    def apply(self, state: State, history: History | None = None) -> bool:
        """Show another state, or say why not. `history` when the step is an undo."""
        if state == self.state and history is None:
            return False
        try:
            if not self.provider.ready(state):
                self.capture(state)
                return False
            state, views = self._unhidden(state, self.cache.views(state))
            views.make(self.wanted(state))
        except RequestError as error:
            self.say(str(error), "bad")
            return False
        except Exception as error:  # a fault of ours: the screen stays as it was, and says so
            self.fail(error)
            return False
        told = answer(self.state, state, self.views.cards, views.cards) if self.views is not None else ""
        back = "undone: " if history is not None and len(history.past) < len(self.history.past) else ""
        self.history = history or push(self.history, state)
        self.views = views
        self.stage.follow()
        if told:
            self.say(back + told, "dim")
        return True

    def with_model(self, model: str, image_size: int | None = None) -> State:
        """The state with another model, once it is there: at a batch that it has, and where most of it goes."""
        state = changes.with_model(self.state, model, image_size)
        with suppress(RequestError):  # which is said where the state is shown
            if state == self.state or not self.provider.ready(state):
                return state
            state = self.provider.at_its_batch(state)
            if self.heaviest:
                return navigate.at_heaviest(state, Index(self.cache.view("tree", state)))
        return state

    def do_phase(self) -> None:
        """The next phase of a language model: its prompt, a token after it, the whole request."""
        after = [*phases(self.state.model).values()][1:]
        if after:
            self.apply(self.with_model(after[0]))
        else:
            self.say("only a language model has phases: prefill, decode, request", "dim")

    def say(self, text: str, role: str = "text") -> None:
        """A line in the foot, until the next key or a few seconds have passed."""
        self.said = (text, role)
        self.stage.tell()

    def hush(self) -> tuple[str, str] | None:
        """No line in the foot; the one that was there, if any."""
        said, self.said = self.said, None
        if said is not None:
            self.stage.show_lines()
        return said

    def fail(self, error: Exception) -> None:
        self.failures.append(f"{type(error).__name__}: {error}")
        self.say(f"internal error, the screen is as before: {self.failures[-1]}", "bad")

    def do_undo(self) -> None:
        self._step(histories.undo(self.history), "undo")

    def do_redo(self) -> None:
        self._step(histories.redo(self.history), "redo")

    def _step(self, history: History, what: str) -> None:
        if history is self.history:
            self.say(f"nothing to {what}", "dim")
        else:
            self.apply(history.present, history)

    def do_swap(self) -> None:
        if not self.state.pin:
            self.say("nothing is pinned yet: p pins what is on screen", "warn")
        else:
            self.apply(changes.swap_pin(self.state))

    def do_plot(self, step: int) -> None:
        state = self.state
        place = states.PLOTS.index(state.plot) + step * (state.pane == "plot")
        self.apply(replace(state, pane="plot", plot=states.PLOTS[place % len(states.PLOTS)]))

    def do_lift(self) -> None:
        """Try what Why says would lift the limit."""
        setting = self.views.why.setting if self.views is not None else ""
        if not setting:
            self.say("no setting is known that would lift this limit", "dim")
            return
        try:
            wanted = states.with_setting(self.state, setting)
        except RequestError as error:
            self.say(str(error), "warn")
            return
        if self.apply(wanted):
            self.say(f"{setting}; u undoes", "good")

    def do_turn(self, by: int) -> None:
        """Turn the knob that is looked at a step, or put it back (0)."""
        try:
            wanted = self.provider.turned(self.state, by)
        except RequestError as error:
            self.say(str(error), "warn")
            return
        if not self.apply(wanted) and wanted == self.state:
            self.say(f"{wanted.fact} is as the device has it", "dim")

    def do_sheet(self, device: str | None = None) -> None:
        """The device under the cursor, or the one named."""
        try:
            text = self.provider.device(device or self.state.on)
        except RequestError as error:
            self.say(str(error), "bad")
            return
        self.stage.show_text("sheet", text.title, text)

    def do_report(self, name: str) -> None:
        """A report of the state on screen that takes no time worth waiting for elsewhere."""
        try:
            sheet = self.provider.sheet(self.state, name, self.size[0] - 4) if self.views is not None else None
        except RequestError as error:
            self.say(str(error), "bad")
            return
        if sheet is not None:
            self.stage.present(name, sheet)

    # --- the tree -----------------------------------------------------------------------------------------

    def _unhidden(self, state: State, views: Views) -> tuple[State, Views]:
        """The row under the cursor is always in the tree: what it is folded into opens; of a kernel that is no more its
        first operator stays, and what is no row of this tree may be one of that by module."""
        if not state.at or state.at in self._indexed(views.tree).place:
            return state, views
        unfolded = self._indexed(views.unfolded)
        if node(state.at) not in unfolded.place:
            operator = node(state.at).partition(":")[2]
            is_here = operator != "" and operator in unfolded.place
            wanted = replace(state, at=operator) if is_here or state.by == "module" else replace(state, by="module")
            return self._unhidden(wanted, self.cache.views(wanted))
        folds = self._folds_over(state.at, unfolded, self._indexed(views.tree))
        if not folds:
            return state, views
        state = replace(state, open=(*state.open, *sorted(folds)))
        return state, self.cache.views(state)

    @staticmethod
    def _folds_over(at: str, unfolded: Index, shown: Index) -> set[str]:
        """The rows of folded ones that a node or what it hangs on is in."""
        above = {at, *unfolded.ancestors(at)} - {""} - shown.place.keys()
        return {more_key(unfolded.parent[key] or "") for key in above if key in unfolded.place}

    def _standing_for(self, state: State) -> str:
        """The row that stands for the one under the cursor when a state folds: itself, its branch or `~more`."""
        place = self._indexed(self.cache.views(replace(state, at="")).tree).place
        at = node(state.at)
        while at and at not in place:
            parent = self.unfolded.parent.get(at) or ""
            if more_key(parent) in place:
                return more_key(parent)
            at = parent
        return at

    def move_to(self, node: str) -> None:
        """Put the tree's cursor on a node; what hides it opens."""
        above = self.unfolded.ancestors(node)
        folds = self._folds_over(node, self.unfolded, self.index)
        opened = (*self.state.open, *sorted((above | folds) - set(self.state.open) - {""}))
        self.apply(replace(self.state, at=node, open=opened))

    def to_point(self, key: str) -> bool:
        """To what a point of the plot stands for: a row of the tree, or a device at a batch. False where neither."""
        device, _, batch = key.rpartition("@b")
        if key in self.unfolded.place:
            self.move_to(key)
        elif device in self.state.devices:
            self.apply(replace(self.state, on=device, batch=int(batch)))
        else:
            return False
        return True

    def do_every(self, opened: int) -> None:
        """All branches, wherever the cursor is; on closing it goes to the subgraph it was in."""
        state, index = self.state, self.unfolded
        if opened:
            self.apply(replace(state, open=tuple(sorted(index.branches(index.place) - {""}))))
        else:
            above = [key for key in index.ancestors(state.at) if key]
            self.apply(replace(state, open=(), at=min(above, key=len) if above else state.at))

    def do_each(self) -> None:
        """The blocks of a branch of repeats one by one, or merged again: that of the cursor or the nearest above."""
        state, index = self.state, self.unfolded
        at = node(state.at)
        apart = {key for key in state.open if key.endswith(EACH)}
        while at:
            row = index.table.rows[index.place[at]]
            if at + EACH in apart:
                self.apply(replace(state, at=at, open=tuple(key for key in state.open if key != at + EACH)))
                return
            if row.kind == "group" and TIMES in str(row.cells[0]):
                self.apply(replace(state, at=at, open=(*state.open, *{at} - set(state.open), at + EACH)))
                return
            at = index.parent.get(at) or ""
        self.say("no row of repeats here: those say how many they are, as x6", "warn")

    def do_fold(self) -> None:
        """The next threshold below which rows are folded; a row that goes takes the cursor to what stands for it."""
        self.fold(next((value for value in FOLDS if value > self.state.fold), 0.0))

    def fold(self, percent: float) -> None:
        opened = tuple(key for key in self.state.open if not key.endswith(MORE))
        wanted = replace(self.state, fold=percent, open=opened)
        self.apply(replace(wanted, at=self._standing_for(wanted)))
        rows = sum(1 for row in self.index.table.rows if row.kind == "more")
        folded = f"rows below {percent:g} % folded into {rows} row{'s' * (rows != 1)}"
        self.say(folded if percent else "nothing is folded", "dim")

    def do_heaviest(self) -> None:
        self.move_to(self.unfolded.heaviest(node(self.state.at)))

    def do_find(self, step: int) -> None:
        """The next match of what was searched for."""
        state = self.state
        if not state.find:
            self.stage.perform("find")
            return
        try:
            target = navigate.find(self.unfolded.table, state.find, state.at, step)
        except RequestError as error:
            self.say(str(error), "warn")
            return
        if target is None:
            self.say(f"nothing in the tree fits {state.find!r}", "warn")
        else:
            self.move_to(target)

    # --- work beside it -----------------------------------------------------------------------------------

    def capture(self, state: State) -> None:
        """Capture a model in the background; what is on screen stays, dimmed, and can be used."""
        from hwexplorer.tui.capture import Capture

        self.start(Capture(state, self.provider.capture(state)))

    def start(self, job: Job) -> None:
        """Begin some work, in the place of other work of its kind."""
        for other in [other for other in self.jobs if type(other) is type(job)]:
            self._give_up(other)
        self.jobs = sorted([*self.jobs, job], key=lambda each: each.dims)
        job.start()
        self.stage.attend()
        self._changed(job)

    def _changed(self, job: Job) -> None:
        if job.dims:
            self.stage.dress()
        else:
            self.stage.show_lines()

    def _give_up(self, job: Job) -> None:
        job.cancel()
        self.jobs.remove(job)
        self._changed(job)

    def stop(self) -> bool:
        """Give up the work that the foot tells of; False where there is none."""
        if not self.jobs:
            return False
        job = self.jobs[0]
        self._give_up(job)
        self.say(job.stopped, "warn")
        return True

    def poll(self) -> bool:
        """Look at what is under way; whether any is left."""
        for job in list(self.jobs):
            if not job.done():
                continue
            self.jobs.remove(job)
            if error := job.error():
                self.say(error, "bad")
            else:
                job.finish(self)
            self._changed(job)
        self.stage.show_lines()
        return bool(self.jobs)

    def end(self) -> None:
        """Nothing that was started beside the screen outlives it."""
        for job in self.jobs:
            job.end()
