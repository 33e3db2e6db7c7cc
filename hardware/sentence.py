"""What the mapping did with an operator, in one sentence: grid or tiles, units, waves, unit and format."""

from __future__ import annotations

from collections.abc import Callable

from hardware.demand import Demand, OpClass
from hardware.device import Device
from hardware.execute import Execution
from hardware.mapping.common import assumed, total_units
from hardware.plan import Plan


def _n(value: float) -> str:
    return f"{value:,.0f}"


def _product(demand: Demand, i: int) -> str:
    g, m, n, k = demand.gemm[:, i]
    groups = f"{_n(g)} x " if g > 1 else ""
    return f"{groups}{_n(m)} x {_n(n)} x {_n(k)} product"


def _format(run: Execution, plan: Plan, i: int) -> str:
    return plan.matrix if run.mapping.on_matrix[i] else plan.vector_mac


def _waves(run: Execution, i: int) -> str:
    waves = run.mapping.tiling.waves[i]
    return f"{_n(waves)} wave{'s' if waves != 1 else ''}"


def _split(run: Execution, i: int) -> str:
    split = run.mapping.tiling.split[i]
    return f", K split {_n(split)} ways" if split > 1 else ""


def _elements(demand: Demand, i: int, what: str) -> str:
    return f"{_n(demand.elements[i])} {what}"


def _cpu(demand: Demand, device: Device, plan: Plan, run: Execution, i: int) -> str:
    units = f"{_n(run.mapping.units[i])}/{_n(device.units)} cores"
    tiling = run.mapping.tiling
    if demand.macs[i] > 0 and tiling.tile_m[i] > 0:
        unit = "matrix unit" if run.mapping.on_matrix[i] else "vector lanes"
        return (
            f"{_product(demand, i)} on {unit} ({_format(run, plan, i)}): {_n(tiling.blocks[i])} blocks of "
            f"{_n(tiling.tile_m[i])} x {_n(tiling.tile_n[i])}{_split(run, i)}, {units}, {_waves(run, i)}"
        )
    return f"{_elements(demand, i, 'elements')} on vector lanes ({plan.vector}), {units}"


def _gpu(demand: Demand, device: Device, plan: Plan, run: Execution, i: int) -> str:
    units = f"{_n(run.mapping.units[i])}/{_n(device.units)} SMs"
    tiling = run.mapping.tiling
    if demand.macs[i] > 0 and tiling.tile_m[i] > 0:
        rewritten = " as 36 products by Winograd's F(4 x 4, 3 x 3)" if run.mapping.winograd[i] else ""
        unit = "tensor cores" if run.mapping.on_matrix[i] else "CUDA cores"
        return (
            f"{_product(demand, i)}{rewritten} on {unit} ({_format(run, plan, i)}): {_n(tiling.blocks[i])} blocks of "
            f"{_n(tiling.tile_m[i])} x {_n(tiling.tile_n[i])}{_split(run, i)}, {units}, {_waves(run, i)}"
        )
    blocks = -(-demand.elements[i] // assumed("common", "elements_per_block"))
    waves = max(-(-blocks // device.units), 1)
    kind = "depthwise, no reduction for tensor cores: " if demand.op_class[i] == OpClass.DEPTHWISE else ""
    return (
        f"{kind}{_elements(demand, i, 'elements')}, {_n(blocks)} blocks of 256 threads x 4 on CUDA cores "
        f"({plan.vector}), {units}, {_n(waves)} wave{'s' if waves != 1 else ''}"
    )


def _tpu(demand: Demand, device: Device, plan: Plan, run: Execution, i: int) -> str:
    tiling = run.mapping.tiling
    if run.mapping.on_matrix[i]:
        g, _, n, k = demand.gemm[:, i]
        rows, columns = device.array_rows, device.array_columns
        used = g * k * n / (g * -(-k // rows) * rows * -(-n // columns) * columns)
        return (
            f"{_product(demand, i)} on {_n(tiling.units[i])}/{_n(total_units(device))} arrays of {_n(rows)} x "
            f"{_n(columns)} ({plan.matrix}): {_n(tiling.blocks[i])} weight tiles in {_n(tiling.waves[i])} rounds, "
            f"{_n(tiling.tile_m[i])} rows streamed each, cells {used:.0%} full"
        )
    if demand.op_class[i] == OpClass.DEPTHWISE:
        return f"depthwise: {_elements(demand, i, 'results')} on the vector unit, which beats nearly empty arrays"
    return f"{_elements(demand, i, 'elements')} on the vector unit ({plan.vector})"


def _kpu(demand: Demand, device: Device, plan: Plan, run: Execution, i: int) -> str:
    tiling = run.mapping.tiling
    units = f"{_n(run.mapping.units[i])}/{_n(device.units)} tiles"
    if run.mapping.on_matrix[i]:
        return (
            f"{_product(demand, i)} as a domain flow ({plan.matrix}): {_n(tiling.blocks[i])} blocks of "
            f"{_n(tiling.tile_m[i])} x {_n(tiling.tile_n[i])}{_split(run, i)}, {units}, "
            f"{_n(tiling.waves[i])} wavefront{'s' if tiling.waves[i] != 1 else ''}"
        )
    return f"{_elements(demand, i, 'elements')} streamed through {units} ({plan.vector})"


_SENTENCES: dict[str, Callable[[Demand, Device, Plan, Execution, int], str]] = {
    "cpu": _cpu,
    "gpu": _gpu,
    "tpu": _tpu,
    "kpu": _kpu,
}


def mapping_sentence(demand: Demand, device: Device, plan: Plan, run: Execution, i: int) -> str:
    """How the device ran operator i."""
    return _SENTENCES[device.architecture](demand, device, plan, run, i)
