"""What a device runs when it is asked for a precision: unit and format for each kind of work, with marks for
deviations."""

from __future__ import annotations

import msgspec

from hardware.device import Device
from hardware.memo import memoize
from hardware.precision import BASE, FORMATS, WIDE, Precision, Widths, canonical, parse

_LOADED = 16  # bits of the floats that every CPU widens as it loads them (F16C, FCVTL, a shift)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """`convolution` and `contraction` are (unit, format); `attention` the format of products of keys and values;
    `matrix`, `vector_mac` and `vector` the formats that price MACs and element-wise work; `matrix_rate` relative to the
    stated peak, above 1 where products are summed in fp16; `stored`, `weights` and `cache` formats in memory, `widths`
    their bytes; `marks` say what deviates from the request."""

    requested: str
    stored: str
    weights: str
    cache: str
    widths: Widths
    convolution: tuple[str, str]
    contraction: tuple[str, str]
    attention: str
    matrix: str
    vector_mac: str
    vector: str
    marks: tuple[str, ...]
    matrix_rate: float = 1.0

    @property
    def element_bytes(self) -> float:
        """Bytes of an activation in memory."""
        return self.widths.activations

    @property
    def operand_bytes(self) -> float:
        """Bytes of a value as matrix units are fed with it: scales of blocks go beside the values."""
        return FORMATS[self.stored].bits / 8.0


def _unit_and_format(device: Device, precision: str, work: str) -> tuple[str, str] | None:
    stated = device.file.runs.get(precision, {}).get(work)
    if stated:
        unit, _, format_ = stated.partition(":")
        return unit, format_
    tables = device.file.fma_per_clock
    for unit in ("matrix", "vector"):
        if precision in tables.get(unit, {}):
            return unit, precision
    return None


def _resolve(device: Device, precision: str, work: str) -> tuple[str, str]:
    for candidate in (precision, *FORMATS[precision].wider):
        unit_and_format = _unit_and_format(device, candidate, work)
        if unit_and_format:
            return unit_and_format
    return "vector", BASE  # every device file has it: checked on loading


def _stored_format(device: Device, precision: str, contraction: str) -> str:
    """Tensors are stored as asked where any unit reads that format, else in the format that is run."""
    form = FORMATS[precision]
    tensors = form.tensors
    stated = device.file.runs.get(precision, device.file.runs.get(tensors, {})).get("stored")
    if stated:
        return stated
    if tensors == BASE:
        return tensors
    run = FORMATS[contraction]
    if device.arch.is_host and form.kind == "float" and form.bits == _LOADED < run.bits:
        return precision
    formats = {name for table in device.file.fma_per_clock.values() for name in table}
    return precision if precision in formats else contraction


def _marks(device: Device, precision: str, stored: str, convolution: str, contraction: str) -> tuple[str, ...]:
    runs, marks = device.file.runs, []
    why = runs.get(precision, runs.get(FORMATS[precision].tensors, {})).get("why", "")
    if stored != FORMATS[precision].tensors:
        marks.append(f"{precision} is not supported: runs as {contraction}")
    elif contraction == convolution != precision:
        marks.append(f"{precision} tensors, products run as {contraction}")
    elif contraction != precision or convolution != precision:
        marks.append(f"{precision}: convolutions run as {convolution}, matrix products as {contraction}")
    if marks and why:
        marks[0] += f" ({why})"
    return tuple(marks)


def make_plan(device: Device, precision: str, narrow_sums: bool = False) -> Plan:
    """Return the plan for a precision; `narrow_sums` sums fp16 products in fp16. Raises RequestError for an unknown
    one."""
    return _plan(device, canonical(precision), narrow_sums)


def _accumulated_narrow(device: Device, exact: Plan) -> Plan:
    fact = device.facts.get("fp16_accumulation_rate")
    runs = ("matrix", "fp16") in (exact.convolution, exact.contraction)
    if fact is None or fact.value == 1.0 or not runs:
        return exact
    mark = f"fp16 products accumulate in fp16 at {fact.value:g}x the rate"
    return msgspec.structs.replace(exact, matrix_rate=fact.value, marks=(*exact.marks, mark))


@memoize()
def _plan(device: Device, name: str, narrow_sums: bool) -> Plan:
    precision = parse(name)
    multiplied = precision.multiplied
    convolution = _resolve(device, multiplied, "convolution")
    contraction = _resolve(device, multiplied, "contraction")
    if precision.is_uniform:
        stored = weights = cache = _stored_format(device, name, contraction[1])
        marks = _marks(device, name, stored, convolution[1], contraction[1])
        if FORMATS[name].is_packed and stored != name:
            weights = name
            marks = (f"{marks[0]}; weights stay {name} in memory", *marks[1:])
    else:
        stored = _activations(device, precision, contraction[1])
        weights, cache = precision.weights, precision.cache
        marks = _mixed_marks(precision, convolution[1], contraction[1])
    kept = stored if precision.is_uniform else precision.kept
    lanes = device.file.fma_per_clock["vector"]
    vector = next((name for name in (stored, *FORMATS[stored].wider) if name in lanes), BASE)
    exact = Plan(
        requested=name,
        stored=stored,
        weights=weights,
        cache=cache,
        widths=Widths(
            activations=FORMATS[stored].bytes,
            weights=FORMATS[weights].bytes,
            kept=FORMATS[kept].bytes,
            cache=FORMATS[cache].bytes,
            unpack_weights=_unpack_ops(weights, contraction[1]),
            unpack_cache=_unpack_ops(cache, stored) if FORMATS[cache].bytes < FORMATS[stored].bytes else 0.0,
        ),
        convolution=convolution,
        contraction=contraction,
        attention=contraction[1] if precision.is_uniform else _attention(device, contraction[1]),
        matrix=next((f for unit, f in (convolution, contraction) if unit == "matrix"), contraction[1]),
        vector_mac=next((f for unit, f in (contraction, convolution) if unit == "vector"), vector),
        vector=vector,
        marks=marks,
    )
    return _accumulated_narrow(device, exact) if narrow_sums else exact


def _activations(device: Device, precision: Precision, contraction: str) -> str:
    """Return the format of activations: as asked where a unit reads or multiplies it, else the next wider that one
    reads."""
    form = FORMATS[precision.activations]
    if form.unit == contraction:
        return form.name
    formats = {name for table in device.file.fma_per_clock.values() for name in table}
    for name in (form.name, *form.wider):
        if stated := device.file.runs.get(name, {}).get("stored"):
            return stated
        if name in formats:
            return name
    return BASE


def _attention(device: Device, multiplied: str) -> str:
    """Queries, keys and values are multiplied in 16 bits or more, however narrow weights and their products are."""
    return multiplied if FORMATS[multiplied].bits >= FORMATS[WIDE].bits else _resolve(device, WIDE, "contraction")[1]


def _unpack_ops(stored: str, multiplied: str) -> float:
    """Operations of the vector unit on each stored value before it can be multiplied in another format."""
    form = FORMATS[stored]
    return 0.0 if multiplied in (stored, form.unit) else form.unpack_ops


def _mixed_marks(precision: Precision, convolution: str, contraction: str) -> tuple[str, ...]:
    multiplied = precision.multiplied
    wanted = FORMATS[multiplied]
    if all((FORMATS[f].kind, FORMATS[f].bits) == (wanted.kind, wanted.bits) for f in (convolution, contraction)):
        return ()  # `a16` is fp16 or bf16, whichever there is
    run = contraction if contraction == convolution else f"{convolution} and {contraction}"
    return (f"{precision.name}: products of {multiplied} are not supported, weights are unpacked to {run}",)
