"""The plan of a device for a requested precision: unit and format for each kind of work, with marks for deviations."""

import msgspec

from hardware.base.records import memoize
from hardware.device import Device
from hardware.engines.runtime import FormatRule, Runtime, format_rule
from hardware.precision import BASE, FORMATS, WIDE, Precision, Widths, canonical, make_widths, parse

_LOADED = 16  # bits of the floats that every CPU widens as it loads them (F16C, FCVTL, a shift)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The units and formats for a requested precision. `convolution` and `contraction` are (unit, format); `attention`
    is the format of products with keys and values. `matrix`, `vector_mac` and `vector` are the formats that price MACs
    and element-wise work; lanes unpack stored values at the rate of `unpacking`. `matrix_rate` is relative to the
    stated peak, above 1 if products accumulate in fp16. `stored`, `weights`, `kept` (what stays wide) and `cache` are
    formats in memory, `widths` their bytes. Activations are rounded to `operand` before products. `marks` say what
    deviates from the request."""

    requested: str
    stored: str
    weights: str
    kept: str
    cache: str
    widths: Widths
    convolution: tuple[str, str]
    contraction: tuple[str, str]
    attention: str
    matrix: str
    vector_mac: str
    vector: str
    unpacking: str
    marks: tuple[str, ...]
    operand: str
    matrix_rate: float = 1.0

    @property
    def element_bytes(self) -> float:
        """Bytes of an activation in memory."""
        return self.widths.activations

    @property
    def operand_bytes(self) -> float:
        """Bytes of a value that matrix units read, without the scales of blocks."""
        return FORMATS[self.operand].bits / 8.0

    def precision_run(self, mostly_convolution: bool | None) -> str:
        """Return the format that most multiply-accumulates run in; without any (None), the format of the tensors."""
        if mostly_convolution is None:
            return self.stored
        return self.convolution[1] if mostly_convolution else self.contraction[1]


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


class _Product(msgspec.Struct, frozen=True):
    """The unit and format of a kind of product, and the runtime's rule that led to them."""

    unit: str
    form: str
    rule: FormatRule | None = None


def _resolve(device: Device, precision: str, work: str, kernels: tuple[str, ...]) -> _Product:
    """Return the first format with a runtime's kernel and a device's unit: as requested, else the next wider."""
    for asked in (precision, *FORMATS[precision].wider):
        rule = format_rule(device, kernels, asked, work)
        for candidate in rule.runs if rule else (asked,):
            unit_and_format = _unit_and_format(device, candidate, work)
            if unit_and_format:
                return _Product(*unit_and_format, None if candidate == precision else rule)
    return _Product("vector", BASE)  # every device file has it: checked on loading


def _products(device: Device, precision: str, kernels: tuple[str, ...]) -> tuple[_Product, _Product]:
    """Return the formats of convolutions and matrix products; both on the matrix unit use the wider of the two."""
    convolution = _resolve(device, precision, "convolution", kernels)
    contraction = _resolve(device, precision, "contraction", kernels)
    if convolution.unit == contraction.unit == "matrix":
        wider = max(convolution, contraction, key=lambda product: FORMATS[product.form].bits)
        return wider, wider
    return convolution, contraction


def _stored_format(device: Device, precision: str, contraction: _Product) -> str:
    """Return the format of tensors: as requested if any unit reads that format, else the format that is run."""
    form = FORMATS[precision]
    tensors = form.tensors
    stated = device.file.runs.get(precision, device.file.runs.get(tensors, {})).get("stored")
    if stated:
        return stated
    run = FORMATS[contraction.form]
    if contraction.rule is not None:
        return run.tensors
    if tensors == BASE:
        return tensors
    loaded = next((name for name in (precision, *form.wider) if _widens_on_load(device, name)), "")
    if loaded and run.bits > _LOADED:
        return loaded
    formats = {name for table in device.file.fma_per_clock.values() for name in table}
    return precision if precision in formats else contraction.form


def _widens_on_load(device: Device, name: str) -> bool:
    """Return True for a float that a processor keeps in memory although it multiplies a wider one."""
    return device.arch.is_host and (FORMATS[name].kind, FORMATS[name].bits) == ("float", _LOADED)


def _marks(device: Device, precision: str, stored: str, products: tuple[_Product, _Product]) -> tuple[str, ...]:
    convolution, contraction = (product.form for product in products)
    rule = products[0].rule or products[1].rule
    stated = device.file.runs.get(precision, device.file.runs.get(FORMATS[precision].tensors, {})).get("why", "")
    marks, why = [], rule.why if rule else stated
    if stored != FORMATS[precision].tensors:
        by_default = rule is not None and FORMATS[stored].bits < FORMATS[precision].bits
        marks.append(f"{precision} {'runs' if by_default else 'is not supported: runs'} as {contraction}")
    elif contraction == convolution != precision:
        marks.append(f"{precision} tensors, products run as {contraction}")
    elif contraction != precision or convolution != precision:
        marks.append(f"{precision}: convolutions run as {convolution}, matrix products as {contraction}")
    if marks and why:
        marks[0] += f" ({why})"
    return tuple(marks)


def make_plan(device: Device, precision: str, runtime: Runtime | None = None) -> Plan:
    """Return the plan for a precision under a runtime; without a runtime, use all that the device has. Raises
    RequestError for an unknown precision."""
    if runtime is None:
        return _plan(device, canonical(precision), (), False, "")
    between = runtime.activations.get(device.software_class, "")
    return _plan(device, canonical(precision), runtime.formats, runtime.product_library.narrow_sums, between)


def _accumulated_narrow(device: Device, exact: Plan) -> Plan:
    fact = device.facts.get("fp16_accumulation_rate")
    runs = ("matrix", "fp16") in (exact.convolution, exact.contraction)
    if fact is None or fact.value == 1.0 or not runs:
        return exact
    mark = f"fp16 products accumulate in fp16 at {fact.value:g}x the rate"
    return msgspec.structs.replace(exact, matrix_rate=fact.value, marks=(*exact.marks, mark))


@memoize()
def _plan(device: Device, name: str, kernels: tuple[str, ...], narrow_sums: bool, between: str) -> Plan:
    precision = parse(name)
    kernels = () if precision.is_strict else kernels
    asked = precision.weights
    has_own = not FORMATS[asked].is_unit and format_rule(device, kernels, asked, "contraction") is not None
    products = _products(device, asked if has_own else precision.multiplied, kernels)
    convolution, contraction = ((product.unit, product.form) for product in products)
    if precision.is_uniform:
        stored = weights = cache = _stored_format(device, asked, products[1])
        marks = _marks(device, asked, stored, products)
        rule = products[1].rule
        if FORMATS[asked].is_packed and stored != asked and (rule is None or rule.keeps_weights):
            weights = asked
            marks = (f"{marks[0]}; weights stay {asked} in memory", *marks[1:])
    else:
        stored = _activations(device, precision, contraction[1])
        weights, cache = precision.weights, precision.cache
        marks = _mixed_marks(precision, convolution[1], contraction[1], products[1].rule)
    rule = format_rule(device, kernels, precision.multiplied, "contraction")
    kept = stored if precision.is_uniform else rule.wide_format or precision.kept if rule else precision.kept
    operand = stored
    between = stored if has_own else between  # activations are rounded for products alone
    if between and FORMATS[contraction[1]].bits < FORMATS[between].bits:
        operand = stored if precision.is_uniform else contraction[1]
        stored, kept = between, WIDE if precision.is_uniform else kept
    lanes = device.file.fma_per_clock["vector"]
    unpacking = next((name for name in (stored, *FORMATS[stored].wider) if name in lanes), BASE)
    vector = BASE if device.arch.is_host and FORMATS[unpacking].host_multiplies else unpacking
    exact = Plan(
        requested=name,
        stored=stored,
        weights=weights,
        kept=kept,
        cache=cache,
        widths=msgspec.structs.replace(
            make_widths(stored, weights, kept, cache),
            unpack_weights=_unpack_ops(weights, contraction[1]),
            unpack_cache=_unpack_ops(cache, stored) if FORMATS[cache].bytes < FORMATS[stored].bytes else 0.0,
        ),
        convolution=convolution,
        contraction=contraction,
        attention=_attention(device, contraction[1], kernels, precision.is_uniform and operand == stored),
        operand=operand,
        matrix=next((f for unit, f in (convolution, contraction) if unit == "matrix"), contraction[1]),
        vector_mac=next((f for unit, f in (contraction, convolution) if unit == "vector"), vector),
        vector=vector,
        unpacking=unpacking,
        marks=marks,
    )
    return _accumulated_narrow(device, exact) if narrow_sums else exact


def _activations(device: Device, precision: Precision, contraction: str) -> str:
    """Return the format of activations: as requested if a unit reads or multiplies it, else the next wider format that
    a unit reads."""
    form = FORMATS[precision.activations]
    if form.unit == contraction:
        return form.name
    formats = {name for table in device.file.fma_per_clock.values() for name in table}
    for name in (form.name, *form.wider):
        if stated := device.file.runs.get(name, {}).get("stored"):
            return stated
        if name in formats or (_widens_on_load(device, name) and not FORMATS[precision.weights].whole_file):
            return name
    return BASE


def _attention(device: Device, multiplied: str, kernels: tuple[str, ...], is_uniform: bool) -> str:
    """Return the format of products of queries, keys and values: the one of other products if all tensors have one
    format and the runtime has a kernel, else 16 bits or more."""
    has_kernel = is_uniform and format_rule(device, kernels, multiplied, "attention") is None
    if has_kernel or FORMATS[multiplied].bits >= FORMATS[WIDE].bits:
        return multiplied
    return _resolve(device, WIDE, "contraction", kernels).form


def _unpack_ops(stored: str, multiplied: str) -> float:
    """Return the vector operations on each stored value before it can be multiplied in another format."""
    form = FORMATS[stored]
    return 0.0 if multiplied in (stored, form.unit) else form.unpack_ops


def _mixed_marks(precision: Precision, convolution: str, contraction: str, rule: FormatRule | None) -> tuple[str, ...]:
    multiplied = precision.multiplied
    wanted = FORMATS[multiplied]
    if all((FORMATS[f].kind, FORMATS[f].bits) == (wanted.kind, wanted.bits) for f in (convolution, contraction)):
        return ()  # `a16` is fp16 or bf16, whichever there is
    run = contraction if contraction == convolution else f"{convolution} and {contraction}"
    reason = f"{rule.why}:" if rule else f"products of {multiplied} are not supported,"
    return (f"{precision.name}: {reason} weights are unpacked to {run}",)
