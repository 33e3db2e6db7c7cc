"""The answer of a report about a state, for the command line, the screen and Python: a document and views.

`Answer` is one; `find_answer` makes the one that the arguments of a command or a function ask for: it converts them
to a state and captures the models that this needs. `print_report` prints it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from shlex import quote
from types import UnionType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args, get_type_hints

import msgspec

from analysis.model import reading_budget
from analysis.model.ir import workload as workloads
from analysis.model.names import model_ref
from hardware import known_architectures as architectures
from hardware.base.errors import RequestError, split_list
from hwexplorer import declare, engine, registry
from hwexplorer import state as states
from hwexplorer.export.files import SUFFIXES
from hwexplorer.options import Option
from hwexplorer.process import output
from hwexplorer.settings import default_precision
from hwexplorer.state import State, replace
from hwexplorer.text.number_format import to_ascii
from hwexplorer.views import captions, plain

if TYPE_CHECKING:
    from hwexplorer.views.device_rows import LimitsCheck

_APPLIES = {"batch": "applies to one batch, not to a load", "load": "needs a load, e.g. llama3_8b --load rate=5"}
Document = TypeVar("Document")
TITLE_MAX = 96  # characters of a title and its subject: with ` of ` they fit in one line of 100


def _applicable_options(declared: declare.Report, state: State, given: dict[str, Any]) -> dict[str, Any]:
    """Return the options that apply to a state: to its load, or to its batch. Raises RequestError for another one."""
    unwanted = "batch" if state.load else "load"
    options = {option.name: option for option in declared.options if option.applies_to == unwanted}
    for name in options.keys() & given.keys():
        if given[name] != options[name].default:
            raise RequestError(f"{options[name].flags[0]} {_APPLIES[unwanted]}")
    return {name: value for name, value in given.items() if name not in options}


class Answer(Generic[Document]):
    """The answer of a report about a state. Its attributes are also the fields of its `document`, the struct of its
    JSON. Documents and views are computed when they are asked for."""

    def __init__(self, name: str, state: State, folders: Sequence[Path] | None = None, **options: Any) -> None:
        """`folders` hold devices of this answer alone; None means those in use."""
        declared = registry.report(name)
        self._name, self._report, self._folders = name, declared.about(state), folders
        report = self._report
        self.state_asked = state if report.subject.has("node") else replace(state, at="")
        defaults = {option.name: option.default for option in report.document_options}
        self._options = _applicable_options(declared, state, defaults | options)

    def __getstate__(self) -> dict[str, Any]:
        options = {name: value for name, value in self._options.items() if not callable(value)}
        return {**{name: value for name, value in vars(self).items() if name != "_report"}, "_options": options}

    def __setstate__(self, known: dict[str, Any]) -> None:
        report = registry.report(known["_name"])  # its functions are not pickled
        vars(self).update(known, _report=report.about(known["state_asked"]))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or hasattr(type(self), name):  # a property that failed: its own error is shown
            return object.__getattribute__(self, name)
        document = self.document
        return document[name] if isinstance(document, dict) and name in document else getattr(document, name)

    def _find_devices(self) -> None:
        if self._folders is not None and tuple(self._folders) != engine.named_folders():
            engine.use_folders(self._folders)

    @cached_property
    def document(self) -> Document:
        """The struct of the answer, in SI units."""
        self._find_devices()
        engine.forget_edited_devices()
        document: Document = self._report.document(self.state_asked, **self._options)
        return document

    @cached_property
    def missing_rules(self) -> str:
        """A note on operators without a cost rule, if they are too many for meaningful figures; else ''."""
        if not self._report.subject.options:
            return ""
        states = [state for state in self._report.states(self.state_asked, **self._options) if engine.is_ready(state)]
        gaps = {
            (model := engine.captured_model(state)).name: workloads.uncovered_note(model, state.batch)
            for state in states
        }
        notes = "; ".join(f"{gap} ({name})" if len(gaps) > 1 else gap for name, gap in gaps.items() if gap)
        if notes or (self._report.view is not None and self._report.fails is None):  # a view that needs no document
            return notes
        return getattr(self.document, "incomplete", "") or ""  # the note in a file of results

    @cached_property
    def limits_check(self) -> LimitsCheck | None:
        """Which devices of the state pass its limits; None without limits."""
        if not self.state_asked.limits or not self._report.subject.options:
            return None
        from hwexplorer.views import device_rows

        self._find_devices()
        return device_rows.check_limits(self.state_asked) if engine.is_ready(self.state_asked) else None

    @property
    def broken_rules(self) -> str:
        """The rules that do not hold (`check`, `diff`, `validate`); '' if all hold."""
        return "" if self._report.fails is None else self._report.fails(self.document)

    @property
    def suffixes(self) -> dict[str, str]:
        """The suffix of a file -> the format that it names, with the formats that only this report has."""
        return SUFFIXES | {f".{form}": form for form in self._report.exports}

    @property
    def rows(self) -> tuple[Any, ...]:
        """The structs of the main table, or the rows of CSV as dictionaries if it does not show structs."""
        parts = self._report.parts
        main = next((part for part in parts if getattr(part, "name", None) == self._report.main), (*parts, None)[-1])
        rows = main.items(self.document) if isinstance(main, declare.Rows) else getattr(self.document, "rows", None)
        if rows is not None:
            return tuple(rows)
        from hwexplorer.export.delimited import grid

        names, *lines = grid(self.view())
        return tuple(dict(zip(map(str, names), line, strict=True)) for line in lines)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def records(self) -> list[dict[str, Any]]:
        """Return the rows as flat dictionaries, of which pandas makes a table; inner fields are named `trust.level`."""
        return [_flatten(msgspec.to_builtins(row, enc_hook=str)) for row in self.rows]

    def __repr__(self) -> str:
        return self.to_text("text", output.width()).rstrip("\n")

    def _repr_html_(self) -> str:
        from hwexplorer.export.html import as_fragment

        return as_fragment(self.view(is_whole=False))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON as plain data in SI units."""
        from hwexplorer.export.render import to_contract

        return to_contract(self.document, self.missing_rules, self.limits_check)

    def view(self, is_whole: bool = True, form: str = "text") -> plain.View | plain.Page:
        """Return the view for people: the brief view of the report, if it has one, unless `is_whole`, or its view for
        HTML. The title of an incomplete answer says so first."""
        self._find_devices()
        special_view = self._report.html if form == "html" else None if is_whole else self._report.brief
        page = self._view(is_whole) if special_view is None else special_view(self.state_asked, **self._options)
        title = "; ".join(filter(None, (page.title, str(self.limits_check or ""))))
        title = ". ".join(filter(None, (self.missing_rules, title)))
        return replace(page, title=title) if title != page.title else page

    def _view(self, is_whole: bool) -> plain.View | plain.Page:
        report = self._report
        if report.view is not None:
            return report.view(self.state_asked, **self._options)
        parts = report.views(self.document, self.state_asked, is_whole)
        if report.title is None:
            return parts[0]
        parts = tuple(part for part in parts if getattr(part, "sections", True) or getattr(part, "steps", False))
        names = [part.name for part in parts]
        main = names.index(report.main) if report.main in names and is_whole else -1
        return plain.Page(self._name, self._title(), parts, main=main)

    def _title(self) -> str:
        title = self._report.title
        if callable(title):
            return title(self.document, self.state_asked)
        describe = captions.headline_of_state if self._report.subject.several else captions.place_in_words
        subject = describe(self.state_asked)
        return f"{title} of {subject}" if title and len(title) + len(subject) <= TITLE_MAX else subject

    @property
    def command(self) -> str:
        """The command line that gives this answer, without the fields of the state that only the screen shows."""
        split = tuple(key for key in self.state_asked.open if key.endswith(states.EACH))
        state = replace(self.state_asked, pane=State().pane, zoom=False, find="", open=split)
        words = ["hwexplorer", *registry.full_name(self._name).split()]
        words += [quote(states.format(state))] if self._report.subject.has("model") else []
        for option in self._report.options:
            value = self._options.get(option.name, option.default)
            if isinstance(value, tuple) and option.is_word:
                words += [quote(states.format(word) if isinstance(word, State) else str(word)) for word in value]
            elif value not in ((), option.default, option.in_shell) and isinstance(value, str | int | float | tuple):
                words += [option.flags[0]] if value is True else [option.flags[0], quote(option.write(value))]
        return " ".join(words)

    def to_text(self, form: str = "text", width: int = 0, is_whole: bool = False) -> str:
        """Return what `--format` prints: text (brief unless `is_whole`), json, csv, md, html or a format of the report.
        `width` is the columns to fit, 0 for all."""
        from hwexplorer.export.render import encode, plain

        if form in self._report.exports:
            return self._report.exports[form](self.document, self.state_asked)
        if form == "json":
            return encode(self.document, self.missing_rules, self.limits_check)
        is_whole = is_whole or form != "text"
        return plain(self.view(is_whole, form), form, width, is_whole, self.command)


def _flatten(value: Any, name: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {name: value}
    return {
        key: cell
        for inner in value
        for key, cell in _flatten(value[inner], f"{name}.{inner}" if name else inner).items()
    }


def state_from_arguments(arguments: argparse.Namespace, subject: declare.Subject) -> State:
    """Return the state that the model (or state string) and options describe. An option named like a field sets it."""
    values = vars(arguments)
    text = values.get("model")
    state = State()
    if text is not None:
        if not text.strip():
            raise RequestError("the model name is empty (hwexplorer models lists them)")
        model_name = text if states.is_result(text) else _user_model_name(text, arguments)
        state = State(model=model_name, precision=default_precision(model_name)) if model_name else states.parse(text)
        if not model_name and (note := states.reading_note(text)):
            output.say(note)
        for name in () if model_name else state.devices:  # a wrong device is an error even if --on names others
            engine.device(name)
    changes = {
        name: values[name]
        for name in State.__struct_fields__
        if values.get(name) is not None and name not in ("model", "on", "baseline")
    }
    changes |= _devices(values, state, subject)
    if values.get("node"):
        changes["at"] = values["node"]
    state = replace(state, **changes)
    if values.get("again"):
        engine.capture_again(state)
    return state


def _user_model_name(model: str, arguments: argparse.Namespace) -> str:
    """Return the complete name of the user's model that the words give, '' for a state string. Naming it here allows
    its code to run; a state string does so only with --run-code."""
    if engine.is_adopted(model):
        return model
    model = model_ref.configuration_of_weights(model)
    inputs = arguments.input or ()
    limits = reading_budget.ProcessLimits(
        min(arguments.time_limit or reading_budget.USER_LIMITS.seconds, 1e6),
        int(min(arguments.memory_limit or 0, 1 << 50)) or reading_budget.USER_LIMITS.memory_bytes,
        arguments.show_output,
    )
    if model_ref.user_target(model) is not None or inputs or arguments.batch_dim is not None:
        return engine.resolve_model_name(model, inputs, arguments.batch_dim, limits, trusted=arguments.run_code)
    # `hf:` and a folder is not a state string: its slashes separate folders.
    if model.startswith("hf:") and not any(mark in model for mark in "@?%"):
        return model
    if arguments.run_code:
        engine.allow(states.parse(model).model, limits)
    return ""


def option_value(option: Option, arguments: argparse.Namespace, subject: declare.Subject) -> Any:
    """Return the value of an option. If it names another model, return the state of that model in the same scenario.
    Several words, or devices after --on, are those of sides to compare."""
    value = option.value_in(arguments)
    if not option.is_model:
        return value
    if isinstance(value, str):
        return state_from_arguments(argparse.Namespace(**{**vars(arguments), "model": value}), subject)
    words = split_list(",".join(value or [arguments.on or ""]))
    if all(engine.is_device(states.split_settings(word)[0]) for word in words):
        return tuple(words if value or len(words) > 1 else ())
    if not value or len(value) > 1:
        return tuple(value or ())
    return (state_from_arguments(argparse.Namespace(**{**vars(arguments), "model": value[0]}), subject),)


def _devices(given: dict[str, Any], state: State, subject: declare.Subject) -> dict[str, Any]:
    """Return the fields that `--on` and `--baseline` change."""
    changes: dict[str, Any] = {}
    devices = state.devices
    if given.get("on") is not None:
        names = tuple(split_list(given["on"]))
        if subject.several or (subject.compares and len(names) > 1):
            changes["devices"] = devices = names
        elif len(names) != 1:
            raise RequestError(f"{given['verb']} takes one device after --on, not {len(names)}: `why` compares several")
        else:
            changes["devices"], changes["on"] = _with_device(names[0], devices)
    elif subject.everywhere and "/" not in (given.get("model") or ""):
        from hwexplorer import configurations  # not needed to start the screen

        changes["devices"] = devices = configurations.catalogue(given.get("on_paper", False))
    elif subject.several and "epochs=" in state.model and given.get("cost") and devices == states.DEFAULT_DEVICES:
        changes["devices"] = devices = engine.hired_devices(state)
    if given.get("baseline") is not None:
        changes["devices"], changes["baseline"] = _with_device(given["baseline"], devices)
    elif subject.several and "baseline=" not in (given.get("model") or ""):
        candidates = (states.preferred(devices), *devices) if devices else ()
        gpus = (name for name in candidates if engine.device(name).architecture == architectures.BASELINE)
        changes["baseline"] = next(gpus, state.baseline)
    return changes


def _with_device(name: str, devices: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """Return the devices including `name`, and its spelling among them: `gpu` and `h100_sxm` are the same device."""
    key = engine.device_key(name)
    listed_name = next((other for other in devices if engine.device_key(other) == key), None)
    return (devices, listed_name) if listed_name is not None else ((*devices, name), name)


def prepare_models(states: Iterable[State], strict: bool = False) -> None:
    """Check the devices of each state, and capture its model if it must be. Raises RequestError, and OutputError if
    `strict` and an operator has no cost rule."""
    for state in states:
        name_by_key: dict[str, str] = {}
        for name in state.devices:
            known_name = name_by_key.setdefault(f"{engine.device(name).key}*{engine.count_devices(state, name)}", name)
            if known_name != name:
                raise RequestError(f"{known_name!r} and {name!r} are the same device: name it once")
        capture_model(state)
        if strict and (gap := uncovered_text(engine.captured_model(state))):
            raise output.OutputError(gap)


def with_fixed_batch(state: State, arguments: argparse.Namespace) -> State:
    """Return the state at its model's only batch if no other was asked for. Raises RequestError for a wrong length."""
    if states.is_result(state.model) or not engine.is_ready(state):
        return state
    lengths = engine.captured_model(state).defaults
    for name in ("sequence", "kv"):
        if getattr(arguments, name, None) is not None and name not in lengths:
            raise RequestError(f"{state.model} has no --{name}")
    fixed = engine.fixed_batch(state)
    is_asked = getattr(arguments, "batch", None) is not None or state.batch != State().batch
    return state if fixed is None or is_asked else replace(state, batch=fixed)


def capture_model(state: State) -> None:
    """Capture the model if it must be, with progress on a terminal."""
    if engine.is_ready(state):
        return
    with output.Progress() as progress:

        def show(phase: str, fraction: float) -> None:
            """Show the phase of a capture with its percentage."""
            progress.show(f"capturing: {phase} " + (f"{fraction * 100:3.0f} %" if fraction >= 0 else ""))

        engine.capture(state, show if progress.is_shown else None)


def uncovered_text(model: workloads.Workload) -> str:
    """Return in one line which operators have no cost rule; '' if all have one."""
    missing = workloads.coverage(model).missing
    if not missing:
        return ""
    missing_words = ", ".join(f"{name} ({count}x)" for name, count in missing[:8])
    many = sum(count for _, count in missing)
    return f"{model.name}: {many} of {model.n_operators} operators have no cost rule: {missing_words}"


def find_answer(name: str, arguments: argparse.Namespace, progress: output.Progress) -> Answer[Any]:
    """Return the answer of a report about the state of the arguments. Capture its models if necessary."""
    report = registry.report(name)
    state = state_from_arguments(arguments, report.subject)
    options = {option.name: option_value(option, arguments, report.subject) for option in report.document_options}
    if report.subject.options:
        prepare_models(report.states(state, **options), arguments.strict)
        state = with_fixed_batch(state, arguments)
        options = {name: _at_fixed_batch(value, arguments) for name, value in options.items()}
    if report.ticks:
        options["tick"] = progress.ticking(report.ticks)
    return Answer(name, state, arguments.devices_dir, **options)


def _at_fixed_batch(value: Any, arguments: argparse.Namespace) -> Any:
    """Return a state, or the states among words, at the only batch of its model; any other value as it is."""
    if isinstance(value, tuple):
        return tuple(_at_fixed_batch(each, arguments) for each in value)
    return with_fixed_batch(value, arguments) if isinstance(value, State) else value


def print_schema(name: str) -> None:
    """Print the JSON schema of a report, and of the report that replaces it under a load."""
    from hwexplorer.export.render import json_schema

    kinds = list[Any]()
    declared = registry.report(name)
    for report in (declared, declared if declared.served is None else declared.served(declared)):
        union = get_type_hints(report.document)["return"]
        kinds += get_args(union) if isinstance(union, UnionType) else [union]
    output.put(json_schema(f"hwexplorer {registry.full_name(name)}", tuple(dict.fromkeys(kinds))))


def print_report(name: str, arguments: argparse.Namespace) -> None:
    """Print a report, or write it. Raises OutputError, after the output, if a rule does not hold."""
    progress = output.Progress()
    with progress:
        answer = find_answer(name, arguments, progress)

    def make(form: str) -> str:
        """Return the answer in a format, in colour if it is text for a terminal."""
        with progress:
            printed = answer.to_text(form, output.width(), arguments.all)
        if form == "csv" and answer.missing_rules:  # its first line names the columns
            output.complain(answer.missing_rules)
        printed = to_ascii(printed) if arguments.ascii else printed
        if form != "text" or arguments.output is not None or not output.is_terminal():
            return printed
        from hwexplorer.export.terminal import paint  # not needed for a pipe

        return paint(printed)

    output.emit(arguments, make, answer.suffixes)
    if broken_rules := answer.broken_rules:
        raise output.OutputError(broken_rules)
