"""Read results of benchmark tools as rows in the format of the shipped tables: llama-bench (JSON), trtexec (log)."""

from __future__ import annotations

import json
import re
from typing import Any

from analysis.model.names.model_ref import plain
from hardware.precision import BASE, FORMATS

Row = dict[str, str]
# Columns of the table of language models that llama-bench does not state.
_UNSTATED = "device_mode kv_tokens activation_format kv_format energy_j_per_token power_w"
_STORED = re.compile(r"[-.](I?Q\d\w*|F16|BF16)\.gguf$|\.gguf$", re.IGNORECASE)
_TRTEXEC = {
    "device": r"Selected Device: (.+)",
    "model": r"--onnx=(?:\S*/)?([^\s/]+?)\.onnx",
    "batch": r"--shapes=\S*?:(\d+)x",
    "latency_ms": r"GPU Compute Time: [^\n]*?median = ([\d.]+) ms",
}


def tool_rows(text: str) -> list[Row]:
    """Return the rows of a tool's result, [] if the text is from no known tool."""
    if "=== Performance summary ===" in text:
        return _trtexec_rows(text)
    if not text.lstrip().startswith(("[", "{")):
        return []
    try:
        tests = json.loads(text) if text.lstrip().startswith("[") else map(json.loads, text.strip().splitlines())
        return [_llama_row(test) for test in tests if not (test["n_prompt"] and test["n_gen"])]
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
        return []


def _llama_row(test: dict[str, Any]) -> Row:
    """Return a row of one test of `llama-bench -o json`: prompt tokens alone, or generated tokens alone (tests of both,
    `-pg`, state no speed of either)."""
    prompt, generated, speed = int(test["n_prompt"]), int(test["n_gen"]), float(test["avg_ts"])
    name = re.split(r"[\\/]", str(test["model_filename"]))[-1]
    format_name = _STORED.search(name)
    return dict.fromkeys(_UNSTATED.split(), "") | {
        "source": "llama-bench", "n_devices": "1", "batch": "1", "runtime": "llama.cpp", "note": "llama-bench",
        "device": str(test.get("gpu_info") or test["cpu_info"]), "model": plain(_STORED.sub("", name)),
        "phase": "decode" if generated else "prefill", "output_tokens": str(generated),
        "prompt_tokens": str(prompt or test.get("n_depth", 0)),
        "weights_format": format_name[1] or "" if format_name else "",
        "throughput_tokens_per_s": str(speed), "latency_s": str(1 / speed if generated else prompt / speed),
    }  # fmt: skip


def _trtexec_rows(text: str) -> list[Row]:
    """Return the row of a log of trtexec: the median of the time on the GPU."""
    found = {name: match[1] if (match := re.search(pattern, text)) else "" for name, pattern in _TRTEXEC.items()}
    formats = (name for name in re.findall(r"--(\w+)", text) if name in FORMATS)
    narrowest = min(formats, key=lambda name: FORMATS[name].bits, default=BASE)
    stated = {"precision": narrowest, "framework": "TensorRT", "batch": found["batch"] or "1"}
    return [{"source": "trtexec", **found, **stated}] if found["model"] and found["latency_ms"] else []
