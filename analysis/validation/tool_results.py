"""Read results of benchmark tools as rows in the format of the shipped tables; tool_results.toml lists the tools."""

import json
import re
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

from analysis.model.names.model_ref import plain
from hardware.base import file_access
from hardware.base.errors import RequestError
from hardware.precision import BASE, FORMATS

Row = dict[str, str]
_TOOLS = Path(__file__).with_suffix(".toml")
_STORED = re.compile(r"[-.](I?Q\d\w*|F16|BF16|F32)\.gguf$|\.gguf$", re.IGNORECASE)
# The model in the path of a folder: of the cache of a hub (models--OWNER--NAME/snapshots/HASH), or its last part.
_CACHED_MODEL = re.compile(r"^(?:[/.~]|\w:).*?(?:models--([^/]+)|([^/]+)/?$)")
_BUNCHED = 0.5  # median over mean gap between tokens below which several arrive at once; steady gaps are alike
_MULTISTREAM = "8"  # samples of a query, by MLPerf's rules


def tool_names() -> str:
    """Return the names of the tools whose results are read."""
    tools = file_access.shipped(_TOOLS)
    return ", ".join(dict.fromkeys(tool["name"] for tool in (*tools["json"], *tools["log"])))


def tool_rows(text: str, path: Path, as_loads: bool = False) -> list[Row]:
    """Return the rows of a tool's result, [] if the text is from no known tool. Services under load are rows of the
    table of services if `as_loads`, else of one of their steps of decoding. Raises RequestError if a result states no
    figure."""
    results = [(tool, document) for document in _documents(text) if (tool := _find_tool(document)) is not None]
    rows = [row for tool, document in results if (row := _tool_row(tool, document, path)) is not None]
    if results and not rows:
        tool = results[0][0]
        raise RequestError(f"{path.name}: a result of {tool['name']} without a figure{tool.get('hint', '')}")
    return [_step_row(row) if "load_kind" in row and not as_loads else row for row in rows]


def _documents(text: str) -> list[Any]:
    """Return the documents of a JSON text, a list or a document a line, else the text itself."""
    if text.lstrip().startswith(("[", "{")):
        with suppress(ValueError, RecursionError):
            document = json.loads(text)
            return document if isinstance(document, list) else [document]
        with suppress(ValueError, RecursionError):
            return list(map(json.loads, text.strip().splitlines()))
    return [text]


def _find_tool(document: Any) -> dict[str, Any] | None:
    tools = file_access.shipped(_TOOLS)
    if isinstance(document, str):
        return next((tool for tool in tools["log"] if re.search(tool["mark"], document)), None)
    return next((tool for tool in tools["json"] if all(_value(document, mark) for mark in tool["marks"])), None)


def _tool_row(tool: dict[str, Any], document: Any, path: Path) -> Row | None:
    """Return the row of a log or document of a tool, None if it states no figure."""
    try:
        if isinstance(document, str):
            return _log_row(tool, document, path)
        return _llama_row(document) if tool["name"] == "llama-bench" else _load_row(tool, document)
    except (ValueError, LookupError, TypeError, ArithmeticError):
        return None


def _load_row(tool: dict[str, Any], document: dict[str, Any]) -> Row:
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


def _step_row(row: Row) -> Row:
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


def _llama_row(test: dict[str, Any]) -> Row | None:
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


def _log_row(tool: dict[str, Any], text: str, path: Path) -> Row | None:
    """Return the row of a log, None if it states no figure."""
    matches = {name: re.search(expression, text) for name, expression in tool["columns"].items()}
    row = {name: match[1].strip() if match is not None else "" for name, match in matches.items()}
    if tool["name"] == "MLPerf":
        row = _mlperf_row(row, path)
    else:
        formats = (name for name in re.findall(r"--(\w+)", text) if name in FORMATS)
        row["precision"] = min(formats, key=lambda name: FORMATS[name].bits, default=BASE)
        row |= {"framework": f"TensorRT {'with graphs' * bool(row['framework'])}", "batch": row["batch"] or "1"}
    row["source"] = tool["name"]
    return row if row["model"] and (row["latency_ms"] or row.get("throughput_per_s")) else None


def _mlperf_row(row: Row, path: Path) -> Row:
    """Return the row of a log of MLPerf, whose system and model are those of its folders:
    SYSTEM/MODEL/SCENARIO/performance/run_1."""
    parts = path.resolve().parts
    place = parts.index("performance") if "performance" in parts else 0
    system, model = (parts[place - 3], parts[place - 2]) if place > 2 else ("", "")
    device, _, count = re.match(r"(.*?)(x(\d+))?(?:_|$)", system).groups()  # type: ignore[union-attr]
    latency_ns = "" if row["scenario"] == "Offline" else row.pop("latency_ns")
    software = f"{row['framework']} {system}"
    return row | {
        "device": device, "model": file_access.shipped(_TOOLS)["mlperf"].get(model, plain(model)),
        "n_devices": count or "1", "batch": _MULTISTREAM if row["scenario"] == "MultiStream" else "",
        "framework": "TensorRT" if "trt" in software.lower() else software,
        "latency_ms": repr(float(latency_ns) * 1e-6) if latency_ns else "",
    }  # fmt: skip
