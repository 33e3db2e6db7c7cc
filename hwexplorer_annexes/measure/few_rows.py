"""Adjustment of a chip's rates to a few measurements: too few to fit the rates, but enough to move them.

The time of a row is divided among its limits: arithmetic and memory traffic by family of operators, and the start of
kernels. Rates differ between devices, and rows on one device, by known spreads (spreads.toml). Errors are attributed
by conditioning Gaussian variables: a part moves more if it takes more time and differs more between devices."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from hwexplorer.extend import Device, device_file, estimate, file_access, quantity
from hwexplorer_annexes.measure.device_parts import Fact, Floats, OpClass, Runtime, find_runtime, percent

SPREADS = Path(__file__).with_name("spreads.toml")
MOST_ERROR = 1.0  # of a logarithm; larger errors of a row are clipped to it
STARTS = ("launch_s", "launch_cycles", "dispatch_s", "thread_join_s")  # facts that state the time to start a kernel
FAMILIES = {OpClass.GEMM: "products", OpClass.CONV: "convolutions", OpClass.DEPTHWISE: "depthwise convolutions"}
FAMILIES |= {OpClass.ATTENTION: "attention"}
OTHER = "other operators"
WORDS = {"compute": "arithmetic", "memory": "memory traffic", "start": "the start"}
LEAST_MOVE = 0.01  # of a logarithm; smaller moves are not reported

Part = tuple[str, str]  # a limit (compute, memory, start) and a family of operators
Shares = dict[Part, float]
Rates = dict[str, tuple[float, float, float]]


class Posterior(msgspec.Struct, frozen=True):
    """The logarithm of time of each part over its time on other devices, and the factor (at most 1) on the logarithm of
    the band of such rows."""

    parts: dict[Part, float]
    narrower: float


def family_of_operator(op: int) -> str:
    """Return the family of a class of operators: the rates of one family move together."""
    return FAMILIES.get(OpClass(op), OTHER)


def time_shares(result: estimate.Estimate) -> Shares:
    """Return the shares of an estimate's time by the limit of each kernel and the family of its largest operator."""
    run, demand = result.run, result.demand
    largest = np.full(demand.n_kernels, int(OpClass.ELEMENTWISE))
    order = np.argsort(demand.macs, kind="stable")
    largest[demand.kernel[order]] = demand.op_class[order]
    start_s = np.minimum(run.overhead_s, run.kernel_s)
    limits = np.where(run.kernel_memory_s > run.kernel_compute_s, "memory", "compute")
    seconds: Shares = {("start", "all kernels"): float(start_s.sum())}
    for limit, op, busy in zip(limits.tolist(), largest.tolist(), (run.kernel_s - start_s).tolist(), strict=True):
        part = limit, family_of_operator(op)
        seconds[part] = seconds.get(part, 0.0) + busy
    total = sum(seconds.values()) or 1.0
    return {part: value / total for part, value in seconds.items() if value}


def spread_group(result: estimate.Estimate) -> str:
    """Return the section of spreads.toml that applies: by architecture and runtime, by architecture and work, by
    architecture, else `other`."""
    known, architecture = file_access.shipped(SPREADS), result.device.architecture
    names = (f"{architecture} {result.runtime.id}", f"{architecture} {result.workload.work}", architecture)
    return next((name for name in names if name in known), "other")


def spreads(group: str) -> dict[str, float]:
    """Return variances of logarithms of time: of each limit between devices, and of a `row` on one device."""
    return {name: float(value["value"]) ** 2 for name, value in file_access.shipped(SPREADS)[group].items()}


def condition(rows: Sequence[Shares], errors: Sequence[float], variances: Mapping[str, float]) -> Posterior:
    """Return the posterior mean of each part's logarithm, given the time shares and errors (logarithm of measured over
    predicted) of rows. The prior: parts and rows are independent Gaussians with the given `variances`; a row beyond
    one standard deviation has a wider distribution, as Student's has, so it moves the parts less."""
    parts = sorted({part for row in rows for part in row})
    shares = np.array([[row.get(part, 0.0) for part in parts] for row in rows])
    prior = np.array([variances[limit] for limit, _ in parts])
    seen = (shares * prior) @ shares.T
    e: Floats = np.clip(np.array(errors), -MOST_ERROR, MOST_ERROR)
    far = np.maximum(np.square(e) / (seen.diagonal() + variances["row"]), 1.0)  # an outlier has a cause of its own
    joint = seen + np.diag(variances["row"] * far)
    moved = prior * (shares.T @ np.linalg.solve(joint, e))
    typical = shares.mean(axis=0)
    before = typical @ (prior * typical)
    common = shares @ (prior * typical)
    after = before - common @ np.linalg.solve(joint, common)
    narrower = float(np.sqrt((after + variances["row"]) / (before + variances["row"])))
    return Posterior(dict(zip(parts, moved.tolist(), strict=True)), narrower)


def moved_file(
    device: Device, moved: Mapping[Part, float], runtime: str, formats: Iterable[str], why: str
) -> device_file.DeviceFile:
    """Return the file of a device with start times moved, and rates for these formats of products: how fast a chip is
    in one format says nothing of another. If the runtime states a rate of streaming weights, the file gets its own
    record of the runtime with that rate moved."""
    shipped = device.software
    rates = msgspec.structs.replace(
        shipped,
        compute=_moved_rates(shipped.compute, moved, "compute"),
        bandwidth=_moved_rates(shipped.bandwidth, moved, "memory"),
        streaming=shipped.streaming and _slower(shipped.streaming, moved),
    )
    facts = dict(device.file.facts)
    slower = float(np.exp(moved.get(("start", "all kernels"), 0.0)))
    for name in (name for name in STARTS if device.values.get(name)):
        value, low, high = (each * slower for each in device.ends(name))
        facts[name] = Fact(value, device.arch.data.facts[name].unit, why, "fitted", low, high)
    return msgspec.structs.replace(
        device.file,
        rates=rates,
        facts=facts,
        rates_in=tuple(sorted(set(formats))),
        runtimes=_own_runtime(device, runtime, moved),
    )


def _own_runtime(device: Device, runtime: str, moved: Mapping[Part, float]) -> dict[str, Runtime]:
    general = find_runtime(device, runtime)
    streaming = general.streaming.get(device.software_class) if general else None
    if general is None or streaming is None or ("memory", FAMILIES[OpClass.GEMM]) not in moved:
        return device.file.runtimes
    own = {**general.streaming, device.software_class: _slower(streaming, moved)}
    return {**device.file.runtimes, runtime: msgspec.structs.replace(general, streaming=own, id="")}


def _slower(rate: quantity.SourcedValue, moved: Mapping[Part, float]) -> quantity.SourcedValue:
    by = float(np.exp(-moved.get(("memory", FAMILIES[OpClass.GEMM]), 0.0)))
    value, low, high = (min(each * by, 1.0) for each in rate.all)
    return msgspec.structs.replace(rate, value=value, low=low, high=high)


def _moved_rates(table: Rates, moved: Mapping[Part, float], limit: str) -> Rates:
    rates = dict(table)
    for op in OpClass:
        by = float(np.exp(-moved.get((limit, family_of_operator(op)), 0.0)))
        ends = table.get(op.name, table["other"])
        rates[op.name] = (min(ends[0] * by, 1.0), min(ends[1] * by, 1.0), min(ends[2] * by, 1.0))
    return rates


def describe(posterior: Posterior, shares: Sequence[Shares], work_class: str, row_spread: float) -> list[str]:
    """Return sentences on the parts that moved, the largest move first, on why they did not move further, and on the
    width of the band."""
    lines = []
    for (limit, family), by in sorted(posterior.parts.items(), key=lambda item: -abs(item[1])):
        share = float(np.mean([row.get((limit, family), 0.0) for row in shares]))
        if abs(by) >= LEAST_MOVE:
            pace = f"{percent(abs(np.expm1(by)))} {'longer' if by > 0 else 'less'}"
            lines.append(f"{WORDS[limit]} of {family} takes {pace} ({percent(share)} of the measured time)")
    lines = lines or ["no rate moved by 1 %: the figures are those of similar devices"]
    lines.append(
        f"rates move by a part of the difference: rows of one device differ by {percent(row_spread)} on their own"
    )
    narrow = f"the band of {work_class} is {percent(1 - posterior.narrower)} narrower; other classes keep theirs"
    return [*lines, narrow if work_class else "no class of work covers it, so no band is narrower"]
