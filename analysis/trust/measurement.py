"""Measurements as requests: what a row of measured data asks of the estimate.

A row's framework decides execution (eager, compiled; TensorRT, TFLite and ONNX runtimes fuse), memory layout and,
with its precision column, the number format.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from analysis.run.scenario import Scenario
from hardware import files, policy
from hardware.device import Device, load
from hardware.errors import RequestError

SHIPPED = Path(__file__).parent / "measured"
LEAST, MOST = 1e-9, 1e12  # any latency in ms, energy in mJ, rate or batch lies between; what does not is no number
DATA_MAX = 1 << 28  # bytes of a table, unpacked
GROUP = ("source", "device", "device_mode", "framework", "precision", "scenario")
OFFLINE_BATCH = 64  # MLPerf Offline states no batch; throughput is flat from here on


class Measurement(msgspec.Struct, frozen=True):
    """One row as a request and what was measured. `latency_s` for the batch; energy per inference, J."""

    group: tuple[str, ...]
    model: str
    image_size: int | None
    device: Device
    scenario: Scenario
    latency_s: float | None
    energy_j: float | None
    copies_input: bool
    decodes_input: bool


class Unpredictable(Exception):
    """A row that cannot be predicted; the message is the reason it is counted under."""


def read(paths: Sequence[Path], needed: Sequence[str] = ("device", "model")) -> list[dict[str, str]]:
    """Rows of CSV files, gzipped or not. Raises RequestError for a file without one of these columns, or no table."""
    rows: list[dict[str, str]] = []
    for path in paths:
        if path.parent != SHIPPED:
            policy.require("read", f"reading {path}")
        try:
            data = files.read(path, DATA_MAX)
            plain = files.text(files.unzip(data, DATA_MAX) if path.suffix == ".gz" else data)
            reader = csv.DictReader(io.StringIO(plain, newline=""), restval="")
            missing = [name for name in needed if name not in (reader.fieldnames or ())]
            if missing:
                raise RequestError(f"{path.name}: column {missing[0]!r} is missing")
            rows.extend(reader)
        except (OSError, csv.Error) as error:
            reason = getattr(error, "strerror", None) or error
            raise RequestError(f"{path.name}: cannot be read ({reason})") from None
    return rows


def shipped() -> list[dict[str, str]]:
    """The project's own measured data."""
    return read([SHIPPED / "latency.csv.gz", SHIPPED / "energy.csv.gz"])


@lru_cache(maxsize=1)
def _modes() -> dict[str, Any]:
    return files.table(SHIPPED / "modes.toml")


@lru_cache(maxsize=512)
def device_of(name: str, mode: str, source: str, folders: tuple[Path, ...]) -> Device | str:
    try:
        found = load(name, folders)
    except RequestError:
        return "device is not in the catalogue"
    known = _modes().get(found.id, {})
    unstated = known.get("unstated", {})
    mapped = known.get(mode) or next(
        (to for begin, to in unstated.items() if not mode and source.startswith(begin)), ""
    )
    return load(f"{found.id}:{mapped}", folders) if mapped else found


def interpret(row: dict[str, str], folders: tuple[Path, ...] = ()) -> Measurement:
    """A row as a request. Raises Unpredictable with the reason."""
    name, count = row["device"], 1
    several = re.fullmatch(r"(.+) x([1-9][0-9]?)", name)
    device = device_of(name, row.get("device_mode", ""), row.get("source", ""), folders)
    if isinstance(device, str) and several:  # so many alike: they share a throughput, but not a query
        name, count = several[1], int(several[2])
        device = device_of(name, row.get("device_mode", ""), row.get("source", ""), folders)
    if isinstance(device, str):
        raise Unpredictable(device)
    latency, energy = _number(row, "latency_ms", 1e-3), _number(row, "energy_mJ_per_inference", 1e-3)
    batch = int(_number(row, "batch", 1) or 0)
    if not batch:
        batch = OFFLINE_BATCH if row.get("scenario") == "Offline" else 1
    throughput = _number(row, "throughput_per_s", 1)
    if latency is None and throughput:
        latency = batch * count / throughput
    if latency is None and energy is None:
        raise Unpredictable("row states neither latency nor energy")
    precision = _precision(row)
    framework = row.get("framework", "").lower()
    layout = "nchw" if "nchw" in framework or "eager" in framework else "channels_last"
    layout = "channels_last" if "channels_last" in framework else layout
    try:
        scenario = Scenario(batch, precision, _execution(framework), layout)
    except RequestError as error:
        raise Unpredictable(str(error)) from None
    size = int(_number(row, "image_size", 1) or 0) or None
    group = tuple(row.get(name) or "" for name in GROUP)
    # Such rows time the copy of the images to the device as well, on cards only those of the "dynamic" series.
    integrated = device.software.shares_host_memory
    copies = "incl. transfers" in (row.get("note") or "") and (integrated or row.get("scenario") == "dynamic")
    # Fischer's rows time whole passes over ImageNet; not every note says so.
    decodes = "incl. input pipeline" in (row.get("note") or "") or row.get("source", "").startswith("Fischer")
    return Measurement(group, row["model"], size, device, scenario, latency, energy, copies, decodes)


def _number(row: dict[str, str], name: str, scale: float) -> float | None:
    try:
        value = float(row.get(name) or "")
    except ValueError:
        return None
    return value * scale if LEAST < value < MOST else None


def _precision(row: dict[str, str]) -> str:
    # MLPerf's TensorRT submissions state no precision; they run ResNet-50 in int8.
    unstated = "int8" if "tensorrt" in (row.get("framework") or "").lower() else "fp32"
    text = (row.get("precision") or unstated).lower()
    if "tf32" in text:
        return "tf32"
    return text.split()[0].strip("(),")


def _execution(framework: str) -> str:
    if "compiled" in framework:
        return "compiled"
    if framework.startswith("tensorflow 2"):
        # Since 2.9 oneDNN is on by default: its graph optimiser joins what follows a contraction to it.
        minor = framework.removeprefix("tensorflow 2.").partition(".")[0]
        return "compiled" if minor.isdigit() and int(minor) >= 9 else "eager"
    return "eager" if "eager" in framework else "fused"
