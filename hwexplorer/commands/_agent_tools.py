"""The tools of agents: verbs whose options are the fields of a struct, answered in brief, the verdict first."""

import re
from collections.abc import Sequence
from functools import lru_cache
from shlex import quote
from textwrap import shorten
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from analysis.model.names.model_ref import user_target
from analysis.model.names.targets import complete
from hardware.base.errors import RequestError, matching_places, unknown
from hardware.base.text import percent
from hwexplorer import api, engine, registry
from hwexplorer.options import Option
from hwexplorer.process.output import OutputError
from hwexplorer.state import State

DIGITS = 4  # significant digits of a figure
_TOKEN = re.compile(r"[^\W\d_]{1,4}|\d{1,3}|[^\w\s]|_")
_MODEL = "model on precision batch runtime"
_SEARCH = "max_latency max_energy max_power max_memory min_throughput max_ttft max_tpot sort power_modes cap"
# Tool -> its verb, the options that are its arguments, what it adds to the verb's help.
TOOLS = {
    "check": ("check", f"{_MODEL} rule", "rule: energy < 50mJ, latency < 5ms, memory < 8GB, of a load ttft < 1s."),
    "compare": ("compare", f"{_MODEL} metric", "The best device and its odds."),
    "why": ("why", f"{_MODEL} node", "Two devices explain why one beats the other."),
    "search": ("search", f"{_MODEL} {_SEARCH}", "Without `on` it takes all devices, some seconds."),
    "serve": ("load", f"{_MODEL} load max_ttft max_tpot", "model: llama3_8b:request,in=1024,out=256; load: rate=4."),
    "models": ("models", "", "find: llama 8b."),
    "devices": ("devices", "arch", "find: jetson."),
}
# Field of a document with the rows of the answer -> its columns, with the name before `=` if it is not the last one.
_ROWS = {
    "findings": "rule verdict value limit unit margin odds evidence",
    "loads": "key layout ttft_p50_s ttft_p99_s tpot_p50_s tpot_p99_s tokens_per_s energy_j_per_token power_w "
    "utilization lag_per_s",
    "found": "device batch precision runtime latency_s energy_j_per_inference throughput_per_s peak_memory_bytes key "
    "ttft_p99_s tpot_p99_s tokens_per_s energy_j_per_token odds",
    "rows": "device latency_s latency_band_s energy_j_per_inference edp_js throughput_per_s peak_memory_bytes fits "
    "evidence=trust.level",
    "figures": "figure unit a b change",
    "sides": "device precision_run runtime latency_s energy_j_per_inference",
    "steps": "step latency_s",
    "models": "name family parameters macs",
    "devices": "id name architecture facts.memory_bytes facts.memory_bandwidth facts.power_limit_w silicon",
}


def count_tokens(text: str) -> int:
    """Return the tokens of a text: up to four letters, up to three digits, or one mark. Vocabularies of language models
    have longer pieces, so they count fewer."""
    return len(_TOKEN.findall(text))


class Brief(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An answer, the verdict first: a table in SI units, notes, and the command line that gives all of it. `next` says
    what to measure. `left_out` are rows and notes beyond the tokens asked for."""

    verdict: str
    columns: list[str] = []
    rows: list[list[Any]] = []
    notes: list[str] = []
    next: str = ""
    left_out: int = 0
    command: str = ""

    def to_text(self, tokens: int) -> str:
        """Return the answer as JSON of at most so many tokens. Notes are left out first, then `next`, then rows."""
        while count_tokens(text := msgspec.json.encode(self).decode()) > tokens:
            if self.notes or (len(self.rows) > 1 and not self.next):
                (self.notes or self.rows).pop()
                self.left_out += 1
            elif self.next or self.command:
                self.next, self.command = "", self.command * bool(self.next)
            else:
                break
        return text


@lru_cache(maxsize=len(TOOLS))
def _question(tool: str) -> type[msgspec.Struct]:
    """Return the struct of a tool's arguments: the types, choices and help that the options of its verb declare."""
    verb, names, _ = TOOLS[tool]
    options = api.parameters(verb)
    find = Annotated[str, Meta(description="words that rows have")]
    fields: list[Any] = [(name, *_argument(options[name])) for name in names.split()]
    fields += [("find", find, "")]
    fields += [("tokens", Annotated[int, Meta(ge=50, le=50_000, description="of the answer at most")], 400)]
    return msgspec.defstruct(tool, fields, kw_only=True, forbid_unknown_fields=True)


def _argument(option: Option) -> tuple[Any, Any]:
    """Return the type of an option with the beginning of its help, and its default."""
    choices, metavar = option.settings.get("choices", ()), option.settings.get("metavar", "")
    kinds = {"N": int, "X": str | float, "S": str | float}
    kind: Any = kinds.get(metavar, str) if option.is_word or option.takes_value else bool
    if 0 < len(choices) < 8:
        kind = Literal[tuple(choices)]
    elif option.settings.get("action") == "append" or option.name == "on":
        kind = str | list[str]
    annotated = Annotated[kind, Meta(description=shorten(option.help, 64, placeholder=" .."))]
    return (annotated, msgspec.NODEFAULT) if option.is_required else (annotated | msgspec.UnsetType, msgspec.UNSET)


def listing(tool: str) -> dict[str, Any]:
    """Return name, description and schema of the arguments of a tool."""
    verb, _, hint = TOOLS[tool]
    _, schemas = msgspec.json.schema_components([_question(tool)], ref_template="{name}")
    schema = {key: value for key, value in schemas[tool].items() if key not in ("title", "description")}
    words = registry.help_of(verb)
    description = f"{words[:1].upper()}{words[1:]}. {hint}"
    return {"name": tool, "description": description, "inputSchema": schema, "annotations": {"readOnlyHint": True}}


def answer_call(tool: str, arguments: Any) -> str:
    """Return the answer of a tool to its arguments. Raises RequestError with the nearest match."""
    if tool not in TOOLS:
        raise unknown("tool", tool, TOOLS)
    try:
        question = msgspec.structs.asdict(msgspec.convert(arguments, _question(tool), strict=False))
    except msgspec.ValidationError as error:
        wrong = re.search(r"unknown field `(.+)`", str(error))
        fields = _question(tool).__struct_fields__
        raise (unknown("argument", wrong[1], fields) if wrong else RequestError(str(error))) from None
    tokens, find = question.pop("tokens"), question.pop("find")
    answer = _answer(TOOLS[tool][0], {name: value for name, value in question.items() if value is not msgspec.UNSET})
    return _select(answer, find, tool).to_text(tokens)


def _answer(verb: str, options: dict[str, Any]) -> Brief:
    words = []
    if "model" in options:
        words = [_without_code(str(options.pop("model")))]
    try:
        document = api.function(verb)(*words, **options).to_dict()
    except OutputError as error:
        raise RequestError(str(error)) from None
    parts = ["hwexplorer", *registry.full_name(verb).split(), *map(quote, words)]
    for name, value in options.items():
        values = value if name == "rule" and isinstance(value, list) else [value]
        for text in (",".join(word) if isinstance(word, list) else str(word) for word in values):
            parts += [f"--{name.replace('_', '-')}", *[quote(text)] * (text != "True")]
    lines = _sentences(document)
    return Brief(
        verdict=lines[0], **_table(document), notes=lines[1:], next=_measurement(document), command=" ".join(parts)
    )


def _without_code(model: str) -> str:
    """Return the name of a model, of a captured one in full. Raises RequestError if its code would have to run."""
    target = user_target(model)
    if target is None or not target.runs_code:
        return model
    name = str(complete(target, (), None))
    if not engine.is_ready(State(model=name)):
        raise RequestError(f"{model[:60]} is not captured, and an agent runs no code: hwexplorer capture {model[:60]}")
    return name


def _sentences(document: dict[str, Any]) -> list[str]:
    """Return the sentences of a document, the verdict first."""
    lines = [document.get("verdict", ""), *(document.get("answer") or {}).get("lines", ())[:1]]
    lines += [*document.get("answers", ()), *document.get("reasons", ())]
    sections = [line.strip() for _, section in document.get("sections", ()) for line in section]
    lines += sorted(sections, key=lambda line: not line.startswith("= "))  # the prediction first
    for row in document.get("rows", ()):
        lines += [f"{row['device']}: {text}" for text in (row["verdict"], *row["marks"])]
    if document.get("loads") and not lines:
        load = document["loads"][0]
        lines = [f"{load['key']} keeps up: {percent(load['utilization'])} of capacity"]
    lines += [row["says"] for row in document.get("findings", ()) if row["value"] is None]
    lines += document["not_fitting"] if isinstance(document.get("not_fitting"), list | tuple) else ()
    return [line.removeprefix("= ") for line in lines if line] or [""]


def _measurement(document: dict[str, Any]) -> str:
    unsure = [row["next"] for row in document.get("findings", ()) if row["verdict"] == "UNKNOWN"]
    return str(next(iter(unsure), (document.get("answer") or {}).get("measurement", "")))


def _table(document: dict[str, Any]) -> dict[str, Any]:
    """Return columns and rows of the first table of _ROWS that a document has, without columns that say nothing."""
    table = next(name for name in _ROWS if name in document)
    columns = [field.rpartition("=")[::2] for field in _ROWS[table].split()]
    rows = [[_figure(item, path.split(".")) for _, path in columns] for item in document[table]]
    filled = [i for i in range(len(columns)) if any(row[i] is not None for row in rows)]
    names = [name or path.rpartition(".")[2] for name, path in columns]
    return {"columns": [names[i] for i in filled], "rows": [[row[i] for i in filled] for row in rows]}


def _figure(item: Any, path: Sequence[str]) -> Any:
    for name in path:
        item = item.get(name) if isinstance(item, dict) else None
    if isinstance(item, list | tuple):
        return [_figure(part, ()) for part in item]
    return round_figure(item) if isinstance(item, float) else item


def round_figure(value: float) -> float | int:
    """Return a figure with DIGITS significant digits."""
    rounded = float(f"{value:.{DIGITS}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def _select(answer: Brief, typed: str, tool: str) -> Brief:
    """Return the answer with the rows that have all typed words. Raises RequestError with the nearest if none has."""
    places = matching_places(typed, [" ".join(map(str, row)) for row in answer.rows])
    if typed and not places:
        raise unknown(f"{tool} row", typed, (str(row[0]) for row in answer.rows), listing=f"{tool} lists them")
    count, answer.rows = len(answer.rows), [answer.rows[place] for place in places] if typed else answer.rows
    answer.verdict = answer.verdict or f"{len(answer.rows)} of {count} {tool}"
    return answer
