"""The command that measures an estimate, by the tool of its runtime. `calibrate` reads what the tool writes."""

import re
from functools import lru_cache
from pathlib import Path

import msgspec

from analysis.estimate.estimate import Estimate
from analysis.model.transformer import presets
from analysis.model.transformer.transformer_request import LoadSpec
from hardware.base import file_access
from hardware.base.file_access import read_list

_PATH = Path(__file__).with_suffix(".toml")
_ANSWER = 128  # tokens that a tool generates to time one
_ROUNDS, _REQUESTS = 8, 400  # requests of each client, and at a rate


class Tool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of measurement_tools.toml."""

    runtimes: tuple[str, ...]
    kinds: tuple[str, ...]
    command: str
    result: str
    source: str
    formats: dict[str, str] = {}
    graphs: dict[str, str] = {}


@lru_cache(maxsize=1)
def _tools() -> tuple[Tool, ...]:
    return read_list(_PATH, "tool", Tool)


def describe_measurement(result: Estimate, figure: str, load: LoadSpec | None = None) -> str:
    """Write what to run to measure a metric of an estimate, or of an average step of a `load`, and what reads it."""
    model, scenario, runtime = result.workload.name, result.scenario, result.runtime
    kind = "load" if load is not None else result.workload.kind
    tool = next((row for row in _tools() if kind in row.kinds and runtime.id.startswith(row.runtimes)), None)
    key, name = result.device.key, model.partition(":")[0]
    what = f"run {model} at batch {scenario.batch}" if load is None else f"measure this load of {name}"
    words = f"{what} on {key} with {runtime.name}"
    if load is not None and (tool is None or load.requests):
        columns = "device,model,batch,precision,framework,latency_ms"
        return f"{words}; `hwexplorer calibrate {key} FILE.csv` reads its time ({columns})"
    if tool is None:
        settings = f"--runtime {runtime.id} --precision {scenario.precision}"
        return (
            f'{words}; `hwexplorer calibrate {key} "TIME ms {model} batch {scenario.batch}" {settings}` reads its time'
        )
    command = " ".join(tool.command.format(**_fields(tool, result, load)).split())
    reads = f"; `hwexplorer calibrate {key} {tool.result}` reads it"
    meters = file_access.shipped(_PATH)["power"].get(result.device.software_class, {})
    meter = meters.get(result.device.vendor, "") if figure in ("energy", "edp", "power") else ""
    return f"{words}; `{command}`{f', and `{meter}` meanwhile' * bool(meter)}{reads}"


def _fields(tool: Tool, result: Estimate, load: LoadSpec | None) -> dict[str, object]:
    """Return the fields of a command. Decoding is timed behind as many tokens as the estimate has in its cache."""
    workload, batch, precision = result.workload, result.scenario.batch, result.scenario.precision
    lengths, name = workload.defaults, workload.name.partition(":")[0]
    depth = lengths.get("kv", 0)
    prompt = 0 if workload.kind == "decode" else lengths.get("sequence", 0)
    output = lengths.get("output", _ANSWER if workload.kind == "decode" else 0)
    file = name.replace("/", "_")
    hub = re.match(r"([\w.-]+/[\w.-]+) config\.json", presets.preset(name).source if name in presets.names() else "")
    rate, clients = (load.rate, load.concurrency) if load is not None else (0.0, batch)
    sizes = lengths | {"batch": batch}
    shapes = (f"{spec.name}:{'x'.join(str(sizes.get(str(n), n)) for n in spec.shape)}" for spec in workload.inputs)
    return {
        "model": file, "onnx": file.removesuffix(".onnx") + ".onnx", "hub": hub[1] if hub else name, "batch": batch,
        "tp": workload.devices,
        "device": result.device.key, "runtime": result.runtime.id, "format": tool.formats.get(precision, precision),
        "graph": tool.graphs.get(result.runtime.id, ""), "inputs": ",".join(shapes), "result": tool.result,
        "depth": depth, "prompt": prompt, "context": max(depth, prompt, 1), "output": output,
        "arrivals": f"--request-rate {rate:g}" if rate else f"--max-concurrency {clients}",
        "requests": max(clients * _ROUNDS, _REQUESTS if rate else 0),
    }  # fmt: skip
