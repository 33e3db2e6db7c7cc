"""Tables of measurements: files and results of tools as rows of cells, and the rules that say what cells mean.

tables/ has the shipped tables with their rules; tool_results.toml lists the tools."""

import csv
import io
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from analysis.model.names.model_ref import plain
from hardware import precision
from hardware.base import file_access
from hardware.base.errors import RequestError
from hardware.base.records import group_by
from hardware.device import Device
from hardware.device_catalog import load_device
from hardware.engines import runtime as runtimes

SHIPPED = Path(__file__).with_name("tables")
_TOOLS = Path(__file__).with_name("tool_results.toml")
_CSV = "a CSV with columns device, model, batch, latency_ms"
_IN_WORDS = 'or state a time in words: hwexplorer calibrate DEV "9.7 ms MODEL batch 8"'
_RESULTS_MAX = 10_000  # rows of a result of a tool
_HEAD = 64_000  # characters of a text that say what wrote it
LEAST, MOST = 1e-9, 1e12  # range of latencies in ms, energies in mJ, rates and batches; other values are invalid
DATA_MAX, CELLS_MAX = 1 << 26, 4_000_000  # most bytes of an unpacked table; most cells, 50 times those of a shipped one
ANSWERS = ("reason", "is", "why")  # fields of a rule that name no cell
_STORED = re.compile(r"[-.](I?Q\d\w*|F16|BF16|F32)\.gguf$|\.gguf$", re.IGNORECASE)
# The model in the path of a folder: of the cache of a hub (models--OWNER--NAME/snapshots/HASH), or its last part.
_CACHED_MODEL = re.compile(r"^(?:[/.~]|\w:).*?(?:models--([^/]+)|([^/]+)/?$)")
_BUNCHED = 0.5  # median over mean gap between tokens below which several arrive at once; steady gaps are alike
_MULTISTREAM = "8"  # samples of a query, by MLPerf's rules
Row = TypeVar("Row")
Meaning = TypeVar("Meaning")
Result = TypeVar("Result")
Tick = Callable[[int, int], None]  # shows how many rows are done, of how many


class Unpredictable(Exception):
    """Raised for a row that cannot be predicted. Such rows are counted by the message, which is the reason."""


class Cells(dict[str, str]):
    """The cells of a row by column; '' in columns that its table lacks."""

    def __missing__(self, name: str) -> str:
        return ""

    def number(self, name: str, scale: float = 1.0) -> float | None:
        """Return a cell as a positive number times `scale`, None for anything else."""
        text = self[name] or ""
        try:
            value = float(text) if text.isascii() and "_" not in text else 0.0
        except ValueError:
            return None
        return value * scale if LEAST < value < MOST else None

    def whole(self, name: str, unstated: int = 0) -> int:
        """Return a cell as a whole number, `unstated` for anything else."""
        return int(self.number(name) or unstated)

    def count(self, name: str) -> int:
        """Return a cell as a whole number, 0 if it is empty. Raises Unpredictable for anything else."""
        value = self.number(name)
        if value is None and (self[name] or "").strip():
            raise Unpredictable(f"{name} is not a number above 0")
        return round(value or 0)

    def prompts(self) -> list[int]:
        """Return the prompt tokens of a row, or the usual, least and most if it states none."""
        stated = self.whole("prompt_tokens")
        return [stated] if stated else list(row_rules()["prompt_unstated"])


def row_rules() -> dict[str, Any]:
    """Return the rules by which rows become requests."""
    return file_access.shipped(SHIPPED / "rows.toml")


def interpret_each(
    rows: Sequence[Row], interpret: Callable[[Row], Meaning], tick: Tick | None = None
) -> tuple[list[Meaning], Counter[str]]:
    """Return what rows mean, and the number of other rows by reason."""
    meanings, skipped = list[Meaning](), Counter[str]()
    for done, row in enumerate(rows, 1):
        try:
            meanings.append(interpret(row))
        except Unpredictable as reason:
            skipped[str(reason)] += 1
        if tick is not None:
            tick(done, len(rows))
    return meanings, skipped


def map_groups(
    rows: Sequence[Row],
    interpret: Callable[[Row], Meaning],
    key: Callable[[Meaning], object],
    make: Callable[[Sequence[Meaning]], Sequence[Result]],
    tick: Tick | None = None,
) -> tuple[list[Result], Counter[str]]:
    """Return what `make` makes of the meanings of rows, of those with an equal key together, and the number of rows
    without a result by reason."""
    meanings, skipped = interpret_each(rows, interpret)
    results = list[Result]()
    for members in group_by(meanings, key).values():
        try:
            results += make(members)
        except (Unpredictable, RequestError) as reason:
            skipped[str(reason)] += len(members)
        if tick is not None:
            tick(len(results) + skipped.total(), len(rows))
    return results, skipped


def read_rows(paths: Sequence[Path], needed: Sequence[str] = ("device", "model")) -> list[dict[str, str]]:
    """Read the rows of CSV files or results of tools, gzipped or not. Raises RequestError if one is unreadable or lacks
    a needed column."""
    rows: list[dict[str, str]] = []
    for path in paths:
        try:
            data = file_access.read(path, DATA_MAX)
            plain = file_access.text(file_access.unzip(data, DATA_MAX) if path.suffix == ".gz" else data)
            if results := tool_rows(plain, path, as_loads="load_kind" in needed):
                rows.extend(results)
                continue
            mark = max(",;\t", key=plain.partition("\n")[0].count)
            reader = csv.DictReader(io.StringIO(plain, newline=""), restval="", delimiter=mark)
            present = () if plain.lstrip().startswith(("{", "[")) else reader.fieldnames or ()
            if missing := [name for name in needed if name not in present]:
                other = f"column {missing[0]!r} is missing (it has {', '.join(present)[:80]})"
                if {"device", "model"}.isdisjoint(map(str.lower, present)):
                    other = f"not a result of a known tool ({tool_names()}); write {_CSV}, {_IN_WORDS}"
                raise RequestError(f"{path.name}: {unread_text(plain) or other}")
            if twice := [name for name, number in Counter(present).items() if name and number > 1]:
                raise RequestError(f"{path.name}: column {twice[0]!r} is there twice")
            rows.extend(islice(reader, CELLS_MAX // max(len(present), 1)))
            if next(reader, None) is not None:  # short rows are filled to all columns
                raise RequestError(f"{path.name}: has more than {CELLS_MAX:,} cells")
        except (OSError, csv.Error) as error:
            reason = getattr(error, "strerror", None) or error
            raise RequestError(f"{path.name or path}: cannot be read ({reason})") from None
    return rows


@lru_cache(maxsize=512)
def catalogue_device(name: str, folders: tuple[Path, ...]) -> Device | None:
    """Return the device of a name, None if the catalogue and the folders do not have it. Cached."""
    try:
        return load_device(name, folders)
    except RequestError:
        return None


def find_device(name: str, mode: str, folders: tuple[Path, ...]) -> Device:
    """Return the device of a row in its power mode. Raises Unpredictable if the catalogue does not have it."""
    device = catalogue_device(name, folders)
    if device is None:
        raise Unpredictable("device is not in the catalogue")
    number = re.fullmatch(r"nvpmodel PM(\d+)", mode)
    numbers = {n for power_mode in device.file.power_modes.values() for n in power_mode.nvpmodel}
    if number and numbers and int(number[1]) not in numbers:
        raise Unpredictable("the board has no power mode of this number")
    modes = file_access.shipped(SHIPPED / "modes.toml").get(device.id, {})
    mapped = f"pm{number[1]}" if number and numbers else modes.get(mode, "")
    if mapped.startswith("!"):
        raise Unpredictable(mapped[1:])
    return load_device(f"{device.id}:{mapped}", folders) if mapped else device


def in_each_mode(row: Cells, folders: tuple[Path, ...]) -> list[Cells]:
    """Return a row in each power mode that its board may have run in, the usual one first. A mode is stated by the row,
    or by the name of its device."""
    device = catalogue_device(row["device"], folders)
    if device is None or device.key != device.id or row["device_mode"] or "default power mode" in row["note"]:
        return [row]
    modes = file_access.shipped(SHIPPED / "modes.toml").get(device.id, {})
    return [Cells(row | {"device_mode": mode}) for mode in modes.get("unstated", [""])]


def first_rule(rules: Sequence[dict[str, Any]], cells: Mapping[str, str]) -> dict[str, Any]:
    """Return the first rule that holds, {} if none does: each cell that it names contains its word, or one of several
    words. A rule names cells in `of`, or beside its answers."""
    for rule in rules:
        parts = ((cells.get(name) or "", words) for name, words in rule.get("of", rule).items() if name not in ANSWERS)
        if all(any(word in cell for word in ([words] if isinstance(words, str) else words)) for cell, words in parts):
            return rule
    return {}


def find_runtime_names(software: str, vendor: str, work: str = "vision") -> list[str]:
    """Return the runtimes that a text about software on devices of a vendor may name, the usual one first,
    UNKNOWN if none. Raises Unpredictable with the reason if it names software that is not predicted."""
    cells = {"contains": software.lower(), "work": work, "vendors": vendor}
    rule = first_rule(row_rules()["runtime"], cells)
    if "reason" in rule:
        raise Unpredictable(rule["reason"])
    names = rule.get("is", runtimes.UNKNOWN)
    return names if isinstance(names, list) else [names]


def find_precision(weights: str, activations: str, runtime: str, model: str) -> str:
    """Return the precision of a format of weights, by the rules of its model first. Raises Unpredictable."""
    cells = {"contains": weights, "activations": activations, "runtime": runtime, "model": model}
    rules = row_rules()["weights"]
    rule = first_rule([each for each in rules if "model" in each], cells)
    # llama.cpp's name, from `Q4_K - Small`, `IQ2_XXS - 2.0625 bpw`, `Q4_K_M (4.9 bit)` or the repacked `IQ4_KS_R4`
    name = weights.partition("(")[0].replace(" - small", "_s").replace(" - medium", "_m")
    stated = precision.find(re.sub(r" - .*|_[rx][48]$", "", name).strip())
    if stated is not None and not stated.is_uniform and not rule:
        return stated.name
    if not (rule := rule or first_rule(rules, cells)):
        raise Unpredictable(f"weights of {weights or 'a format that is not stated'}")
    return precision.canonical(rule["is"])


def check_runtime(runtime: str, device: Device, work: str, software: str = "") -> str:
    """Return the runtime or mode if it runs on the device, else LIKE_FOR_LIKE. On GPUs and CPUs, which have several
    engines, `software` without a runtime is an unknown one, and a runtime that does not run raises Unpredictable."""
    known, has_several = runtimes.runtimes(), device.arch.has_layouts or device.arch.is_host
    if runtime == runtimes.UNKNOWN:
        return runtime if has_several and software.strip() else runtimes.LIKE_FOR_LIKE
    if runtime not in known and runtime not in (runtimes.LIKE_FOR_LIKE, *runtimes.MODES):
        raise Unpredictable(f"software of earlier years, which the laboratory alone predicts: {runtime}")
    if runtime not in known or known[runtime].fits(device, work):
        return runtime
    if has_several:
        raise Unpredictable(f"{known[runtime].name} does not run on this device here")
    return runtimes.LIKE_FOR_LIKE


def tool_names() -> str:
    """Return the names of the tools whose results are read."""
    tools = file_access.shipped(_TOOLS)
    return ", ".join(dict.fromkeys(tool["name"] for tool in (*tools["json"], *tools["log"])))


def tool_rows(text: str, path: Path, as_loads: bool = False) -> list[dict[str, str]]:
    """Return the rows of a tool's result, [] if the text is from no known tool. Services under load are rows of the
    table of services if `as_loads`, else of one of their steps of decoding. Raises RequestError if a result states no
    figure."""
    results = [(tool, document) for document in _documents(text) if (tool := _find_tool(document)) is not None]
    rows = [row for tool, document in results if (row := _tool_row(tool, document, path)) is not None]
    if results and not rows:
        tool = results[0][0]
        raise RequestError(f"{path.name}: a result of {tool['name']} without a figure or a model{tool.get('hint', '')}")
    return [_step_row(row) if "load_kind" in row and not as_loads else row for row in rows]


def unread_text(text: str) -> str:
    """Return what a text of a tool is that names no model or device, and what to write instead; '' for other texts."""
    tools = file_access.shipped(_TOOLS)["unread"]
    name = next((name for name, tool in tools.items() if re.search(tool["mark"], text[:_HEAD])), "")
    instead = tools[name].get("instead", _CSV) if name else ""
    return f"a text of {name}, which lacks model or device; write {instead}, {_IN_WORDS}" if name else ""


def _documents(text: str) -> list[Any]:
    """Return the documents of a text: JSON, a list of it or a document a line, or rows of a tool; else the text."""
    if text.lstrip().startswith(("[", "{")):
        with suppress(ValueError, RecursionError):
            document = json.loads(text)
            return document if isinstance(document, list) else [document]
        with suppress(ValueError, RecursionError):
            return list(map(json.loads, text.strip().splitlines()))
    with suppress(csv.Error):  # llama-bench and others write the fields of their documents as columns, too
        rows = csv.DictReader(io.StringIO(text, newline=""))
        if (first := next(rows, None)) is not None and _find_tool(first) is not None:
            return [first, *islice(rows, _RESULTS_MAX)]
    return [text]


def _find_tool(document: Any) -> dict[str, Any] | None:
    tools = file_access.shipped(_TOOLS)
    if isinstance(document, str):
        return next((tool for tool in tools["log"] if re.search(tool["mark"], document)), None)
    return next((tool for tool in tools["json"] if all(_value(document, mark) for mark in tool["marks"])), None)


def _tool_row(tool: dict[str, Any], document: Any, path: Path) -> dict[str, str] | None:
    """Return the row of a log or document of a tool, None if it states no figure."""
    try:
        if isinstance(document, str):
            return _log_row(tool, document, path)
        return _llama_row(document) if tool["name"] == "llama-bench" else _load_row(tool, document)
    except (ValueError, LookupError, TypeError, ArithmeticError):
        return None


def _load_row(tool: dict[str, Any], document: dict[str, Any]) -> dict[str, str]:
    """Return the row of a service under load."""
    row = {name: _value(document, path) for name, path in tool["columns"].items()}
    if cached := _CACHED_MODEL.search(row["model"].replace("\\", "/")):
        row["model"] = (cached[1] or cached[2]).replace("--", "/")
    is_open = row.get("request_rate_per_s", "inf") not in ("", "inf")
    software = re.search("sglang|trt|tensorrt", row["runtime"].lower())
    engine = "vllm" if software is None else "sglang" if software[0] == "sglang" else "trtllm"
    facts = {
        "source": "InferenceX, as kept" if tool["name"] == "InferenceX" else tool["name"],
        "public_model": row["model"], "model": plain(row["model"]), "runtime": engine, "ttft_statistic": "median",
        "weights_format": re.sub("^fp4$", "nvfp4", row.get("weights_format", "")),
        "load_kind": "rate" if is_open else "concurrency" if row["concurrency"] else "one batch",
        "concurrency": row["concurrency"] or ("" if is_open else row["requests"]),
        "device": re.sub(r"^([a-z]+\d+\w*)-.*", r"\1", row["device"]) if "hw" in document else row["device"],
    }  # fmt: skip
    if row.get("attention_data_parallel", "").lower() == "true":  # each device computes attention of its sequences
        facts |= {"attention_data_parallel": row["tensor_parallel"], "tensor_parallel": "1"}
    return row | facts


def _value(document: Any, path: str) -> str:
    """Return the value at the first of the paths that is there, as text; '' if none is."""
    for way in path.split("|"):
        way, _, factor = way.partition("*")
        parts = [_look_up(document, name) for name in way.split("/")]
        if any(part is None for part in parts):
            continue
        if len(parts) == 1 and not factor:
            return str(parts[0])
        if divisor := float(parts[1]) if len(parts) > 1 else 1.0:
            return repr(float(parts[0]) / divisor * float(factor or 1.0))
    return ""


def _look_up(document: Any, path: str) -> Any:
    if isinstance(document, dict) and isinstance(inner := document.get("records"), dict):  # of early versions of aiperf
        document = document | inner
    for name in path.split("."):
        if isinstance(document, list):
            document = document[int(name)] if name.isdigit() and int(name) < len(document) else None
        else:
            document = document.get(name) if isinstance(document, dict) else None
    return None if isinstance(document, dict | list) else document


def _step_row(row: dict[str, str]) -> dict[str, str]:
    """Return the decoding step of a service as a row of the table of language models: the gap between two tokens. The
    median gap is better than the mean, which waits for prompts, unless tokens arrive several at once."""
    row = defaultdict(str, row)
    median, mean = (float(row[name] or 0.0) for name in ("itl_median_s", "tpot_s"))
    gap_s = row["tpot_s" if mean and median < mean * _BUNCHED else "itl_median_s"]
    rate = row["output_tokens_per_s"]
    running = row["concurrency"] or (str(max(round(float(rate) * float(gap_s)), 1)) if rate and gap_s else "")
    columns = ("source", "device", "model", "runtime", "prompt_tokens", "output_tokens")
    return {name: row[name] for name in columns} | {
        "n_devices": row["tensor_parallel"] or "1", "phase": "decode", "batch": running, "latency_s": gap_s,
        "note": row["source"], "weights_format": row["weights_format"] or "bf16",
    }  # fmt: skip


def _llama_row(test: dict[str, Any]) -> dict[str, str] | None:
    """Return a row of one test of llama-bench: prompt tokens alone, or generated tokens alone (tests of both, `-pg`,
    state no speed of either)."""
    prompt, generated, speed = int(test["n_prompt"]), int(test["n_gen"]), float(test["avg_ts"])
    if prompt and generated:
        return None
    name = re.split(r"[\\/]", str(test["model_filename"]))[-1]
    format_name = _STORED.search(name)
    return {
        "source": "llama-bench", "batch": "1", "runtime": "llama.cpp", "note": "llama-bench",
        "device": str(test.get("gpu_info") or test["cpu_info"]), "model": plain(_STORED.sub("", name)),
        "phase": "decode" if generated else "prefill", "output_tokens": str(generated),
        "prompt_tokens": str(prompt or test.get("n_depth", 0)),
        "weights_format": format_name[1] or "" if format_name else "",
        "latency_s": str(1 / speed if generated else prompt / speed),
    }  # fmt: skip


def _log_row(tool: dict[str, Any], text: str, path: Path) -> dict[str, str] | None:
    """Return the row of a log, None if it states no figure."""
    matches = {name: re.search(expression, text) for name, expression in tool["columns"].items()}
    row = {name: match[1].strip() if match is not None else "" for name, match in matches.items()}
    if tool["name"] == "MLPerf":
        row = _mlperf_row(row, path)
    else:
        formats = (name for name in re.findall(r"--(\w+)", text) if name in precision.FORMATS)
        row["precision"] = min(formats, key=lambda name: precision.FORMATS[name].bits, default=precision.BASE)
        row |= {"framework": f"TensorRT {'with graphs' * bool(row['framework'])}", "batch": row["batch"] or "1"}
    row["source"] = tool["name"]
    return row if row["model"] and (row["latency_ms"] or row.get("throughput_per_s")) else None


def _mlperf_row(row: dict[str, str], path: Path) -> dict[str, str]:
    """Return the row of a log of MLPerf, whose system and model are those of its folders:
    SYSTEM/MODEL/SCENARIO/performance/run_1."""
    parts = path.resolve().parts
    place = parts.index("performance") if "performance" in parts else 0
    system, model = (parts[place - 3], parts[place - 2]) if place > 2 else ("", "")
    device, _, count = re.match(r"(.*?)(x(\d+))?(?:_|$)", system).groups()  # type: ignore[union-attr]
    latency_ns = "" if row["scenario"] == "Offline" else row.pop("latency_ns")
    software = f"{row['framework']} {system}"
    is_engine = "trt" in software.lower()
    return row | {
        "device": device, "model": file_access.shipped(_TOOLS)["mlperf"].get(model, plain(model)),
        "n_devices": count or "1", "batch": _MULTISTREAM if row["scenario"] == "MultiStream" else "",
        "framework": "TensorRT" if is_engine else software,
        "note": "default power mode" + "; engine in graphs; built in int8" * is_engine,
        "latency_ms": repr(float(latency_ns) * 1e-6) if latency_ns else "",
    }  # fmt: skip
