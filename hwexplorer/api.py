"""The engine from Python: every report of the registry as a function (`hwexplorer.compare("resnet50", on="l4")`).

Arguments become the words of the command line, so they are read, checked and refused in one place.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, get_origin, get_type_hints

import msgspec

from analysis.model.ir.workload import Workload
from hardware.errors import RequestError as RequestError
from hwexplorer import cli, engine, headless, output, registry, request
from hwexplorer.declare import DEVICE, Report
from hwexplorer.options import DEVICES_DIR, Option
from hwexplorer.reference import sentence
from hwexplorer.registry import Answer

if TYPE_CHECKING:
    import networkx

NAMES = ("Model", "RequestError", "Result", "model")  # what the package offers besides the reports
Document = TypeVar("Document")
_FEW = 12  # choices that a type lists


class Result(Generic[Document]):
    """What a report found. `document` is the struct of its JSON, whose fields are also those of the result."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    @property
    def document(self) -> Document:
        document: Document = self._answer.document
        return document

    @property
    def broken(self) -> str:
        """What had to hold and does not (`check`, `diff`, `validate`); '' where all does."""
        fails = self._answer.report.fails
        return fails(self.document) if fails is not None else ""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        document = self.document
        if isinstance(document, dict) and name in document:
            return document[name]
        return getattr(document, name)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it: plain data in SI units, under the name of the contract."""
        return self._answer.to_dict()

    @property
    def rows(self) -> tuple[Any, ...]:
        """The structs of the main table; where it is not of structs, the rows of CSV as dictionaries."""
        structs = self._answer.records()
        if structs is not None:
            return structs
        from hwexplorer.export.delimited import grid

        names, *lines = grid(self._answer.view())
        return tuple(dict(zip(map(str, names), line, strict=True)) for line in lines)

    def records(self) -> list[dict[str, Any]]:
        """The rows as flat dictionaries: what is inside a field is named after it, `trust.level`."""
        return [_flat(msgspec.to_builtins(row, enc_hook=str)) for row in self.rows]

    def to_pandas(self) -> Any:
        """The rows as a DataFrame. Raises ImportError without pandas."""
        import pandas  # type: ignore[import-untyped,import-not-found,unused-ignore]

        return pandas.DataFrame.from_records(self.records())

    def to_polars(self) -> Any:
        """The rows as a DataFrame. Raises ImportError without polars."""
        import polars  # type: ignore[import-not-found,unused-ignore]

        return polars.from_dicts(self.records(), infer_schema_length=None)

    def told(self, form: str = "text", width: int = 0) -> str:
        """As `--format` prints it: text, json, csv, md or html."""
        return self._answer.told(form, width)

    def __repr__(self) -> str:
        return self.told(width=output.width()).rstrip("\n")

    def _repr_html_(self) -> str:
        from hwexplorer.export.html import as_fragment

        return as_fragment(self._answer.view())


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {name: value}
    return {
        key: each for inner in value for key, each in _flat(value[inner], f"{name}.{inner}" if name else inner).items()
    }


# --- the functions ----------------------------------------------------------------------------------------


def is_function(name: str) -> bool:
    return name in registry.names() and isinstance(registry.load(name), Report)


@lru_cache(maxsize=64)
def function(name: str) -> Callable[..., Result[Any]]:
    """The function of a report, documented by what the report declares."""
    report = registry.load(name)
    assert isinstance(report, Report)
    options = parameters(report)
    signature = _signature(report, options)

    def ask(*given: Any, **named: Any) -> Result[Any]:
        values = signature.bind(*given, **named).arguments
        arguments = cli.parse([name, *_words(options, values)])
        with output.Progress() as progress:
            return Result(headless.answer(name, report, arguments, progress))

    ask.__name__ = ask.__qualname__ = name
    ask.__module__ = "hwexplorer"
    ask.__doc__ = "\n".join([sentence(registry.helped(name)), "", *_helps(options)])
    ask.__signature__ = signature  # type: ignore[attr-defined]
    return ask


def parameters(report: Report) -> dict[str, Option]:
    """Name of the argument -> option: words by their names, options by their flags, `on_paper` by `--on-paper`."""
    own = (*report.subject.options, *report.options, DEVICES_DIR)
    named = [(flag.lstrip("-").replace("-", "_"), each) for each in own for flag in each.flags if flag[:2] != "-o"]
    return dict(sorted(named, key=lambda pair: not pair[1].is_word))


def _words(options: dict[str, Option], values: dict[str, Any]) -> list[str]:
    """The command line that says the same."""
    flags, words = [], []
    for name, value in values.items():
        option, flag = options[name], f"--{name.replace('_', '-')}"
        several = isinstance(value, Iterable) and not isinstance(value, str)
        texts = list(map(_text, value)) if several else [_text(value)]
        if value is None or value is False:
            continue
        if option.is_word:
            words += texts
        elif value is True:
            flags.append(flag)
        elif option.settings.get("action") == "append":
            flags += [f"{flag}={text}" for text in texts]
        else:
            flags.append(f"{flag}={','.join(texts)}")
    return [*flags, "--", *words] if words else flags


def _text(value: object) -> str:
    return engine.adopt(value) if isinstance(value, Workload) else str(value)


def _signature(report: Report, options: dict[str, Option]) -> inspect.Signature:
    document: Any = get_type_hints(report.document).get("return", Any)
    return inspect.Signature(
        [
            inspect.Parameter(
                name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD if option.is_word else inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if option.is_word and "nargs" not in option.settings else None,
                annotation=kind(option) if option.is_word else kind(option) | None,
            )
            for name, option in options.items()
        ],
        return_annotation=types.GenericAlias(Result, document),
    )


def kind(option: Option) -> Any:
    """The type of an argument. What has a unit may be text, `100mJ`, or a number in SI."""
    settings = option.settings
    if settings.get("action") in ("store_true", "store_const"):
        return bool
    if option.is_model:
        each: Any = str | Workload | Model
    elif (choices := settings.get("choices")) is not None:
        each = Literal[tuple(choices)] if len(choices) <= _FEW else str
    else:
        convert = settings.get("type", str)
        read = convert if isinstance(convert, type) else get_type_hints(convert).get("return", str)
        each = {tuple[int, ...]: int, float: float | str, Path: Path | str}.get(read, read)
        each = str if get_origin(each) is tuple else each
    lists = settings.get("action") == "append" or settings.get("nargs") in ("*", "+")
    return Sequence[each] | each if lists or str(settings.get("metavar")).endswith(",..") else each


def _helps(options: dict[str, Option]) -> list[str]:
    return [f"{name}: {option.help.replace('%%', '%')}" for name, option in options.items()]


# --- a model ----------------------------------------------------------------------------------------------


class Model:
    """A model in a scenario. Every report about a model is a method: `model("resnet50", batch=8).tree(on="l4")`."""

    def __init__(self, name: str, scenario: dict[str, Any]) -> None:
        self.name, self._scenario = name, scenario

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        settings = "".join(f", {name}={value!r}" for name, value in self._scenario.items())
        return f"hwexplorer.model({self.name!r}{settings})"

    def __getattr__(self, verb: str) -> Callable[..., Result[Any]]:
        if not is_function(verb) or not registry.takes_model(verb):
            raise AttributeError(f"a model has no report {verb!r}")
        return partial(function(verb), self.name, **self._scenario)

    @property
    def workload(self) -> Workload:
        """Its operators and tensors; captured where it must be."""
        state = self._prepared({})
        return engine.workload(state)

    def graph(self, **options: Any) -> networkx.DiGraph[str]:
        """Its operators with what each costs on a device (`on="h100_sxm"`): nodes by id, figures as attributes."""
        from analysis.reports.model_graph import model_graph, to_networkx

        return to_networkx(model_graph(engine.result(self._prepared(options))))

    def _prepared(self, options: dict[str, Any]) -> Any:
        known = parameters(Report(subject=DEVICE, document=lambda state: None))
        words = _words(known, {"model": self.name, **self._scenario, **options})
        arguments = cli.parse(["graph", *words])
        state = request.state(arguments, DEVICE)
        request.prepare((state,))
        return request.at_its_batch(state, arguments)


def model(model: str | Workload | Model, **scenario: Any) -> Model:
    """A model by name, state string, file or captured workload, with the scenario of all that is asked of it
    (`batch`, `precision`, `runtime` ..)."""
    return Model(_text(model), scenario)
