"""The mapping of a demand to a device as the runtime executes it: weights that stay on chip, the operators on the
units of the architecture, and what the kernels of the runtime's libraries do beside them."""

from statistics import NormalDist
from typing import Any, cast

import msgspec
import numpy as np

from hardware.architecture import Architecture
from hardware.architecture_facts import Efficiency, GpuConstants
from hardware.base.records import SourcedValue, memoize
from hardware.demand import READ_WEIGHT, Demand, Floats, OpClass
from hardware.device import Device
from hardware.mapping.common import (
    TIMES,
    Mapping,
    add_serial,
    last_level_seconds,
    memory_seconds_of,
    usable_last_level_bytes,
    wide_products,
)
from hardware.mapping.kernel_passes import library_kernels, time_attention
from hardware.precision import BASE, FORMATS, WIDE
from hardware.setup import Setup

# Operators whose values stay in 16 bits if residuals do.
BESIDE_PRODUCTS = (OpClass.GEMM, OpClass.ATTENTION, OpClass.ROW_NORM, OpClass.SOFTMAX)


def architecture_of(device: Device) -> Architecture:
    """Return the architecture of a device, with its mapping."""
    assert isinstance(device.arch, Architecture)
    return device.arch


def map_demand(demand: Demand, setup: Setup, rates: Efficiency) -> Mapping:
    """Map each operator to the device, at each setting of the efficiencies, as much slower as it was measured."""
    mapping = _map_operators(demand, setup, rates)
    return mapping if setup.slower == 1.0 else _slow_down(mapping, setup.slower)


def _slow_down(mapping: Mapping, slower: float) -> Mapping:
    times: dict[str, Any] = {name: each * slower for name in TIMES if (each := getattr(mapping, name)) is not None}
    if mapping.least_energy is not None:
        times["least_energy"] = _slow_down(mapping.least_energy, slower)
    return msgspec.structs.replace(mapping, **times)


def _map_operators(demand: Demand, setup: Setup, rates: Efficiency) -> Mapping:
    runtime, demand = setup.runtime, _with_engine_formats(demand, setup)
    if runtime.bandwidth:
        shares = _class_rates(setup, "bandwidth", "narrow" if setup.is_narrow else "")
        rates = msgspec.structs.replace(rates, bandwidth=rates.bandwidth * shares)
    demand, times = library_kernels(demand, setup)
    mapping = architecture_of(setup.device).map_operators(demand, setup, rates)
    if times is not None:
        mapping = msgspec.structs.replace(mapping, vector_s=np.maximum(mapping.vector_s, times.least_s))
        mapping = add_serial(mapping, demand, blocks_s=times.rows_s, starts_s=times.starts_s)
    mapping = _with_library_rates(mapping, demand, setup, float(rates.bandwidth[0, OpClass.ELEMENTWISE]))
    mapping = time_attention(mapping, demand, setup, rates)
    mapping = quantise_activations(mapping, demand, setup, rates)
    if demand.is_factor.any():
        columns_s = demand.gemm[2] * setup.device.arch.constants.dependent_step_s
        mapping = add_serial(mapping, demand, blocks_s=np.where(demand.is_factor, columns_s, 0.0))
    if demand.links is None:
        return mapping
    link_s = link_seconds(demand.links, setup.device, runtime.library_collectives, runtime.collective_s.value)
    if demand.training_devices:
        link_s = _exposed_seconds(link_s, mapping, demand, setup.device.arch.constants.step_spread)
    busy_s = None if mapping.busy_s is None else mapping.busy_s + demand.per_kernel(link_s)
    return msgspec.structs.replace(mapping, dram_s=mapping.dram_s + link_s, busy_s=busy_s)


def link_seconds(links: Floats, device: Device, by_library: bool = False, start_s: float = 0.0) -> Floats:
    """Return the seconds of collectives, (n,), from `links` (4, n) of a Demand. Take the lesser of two protocols: small
    messages in words with flags (LL), and blocks with acknowledgement (Simple), for which an exchange waits in each
    round, a library's ring once. In an exchange by an engine's own kernels, threads copy to each peer at a limited
    rate. Without links of all devices with each other, collectives are a library's."""
    sent, messages, stated, peers = links
    speed, assumed = np.where(stated > 0, stated, device.link_bandwidth), device.arch.constants
    is_pair = speed <= assumed.pair_link_bandwidth
    is_library = by_library | is_pair
    words = assumed.library_words_reached if by_library else assumed.link_words_reached
    in_words = sent / (speed * np.where(is_pair, assumed.link_words_reached, words))
    in_words[(peers > 0) & (sent > is_library * peers * assumed.library_exchange_words)] = np.inf
    message_s = np.where(is_library, max(device.link_latency_s, device.library_message_s), device.link_latency_s)
    starts_s = np.where(messages > 0, start_s + is_library * device.library_start_s, 0.0)
    wait_s = np.where(is_library & (peers == 0), assumed.library_block_s, messages * assumed.link_block_s)
    in_blocks = speed * np.where(is_pair, assumed.pair_blocks_reached, assumed.link_blocks_reached)
    by_threads = np.minimum(speed * assumed.exchange_reached, peers * device.units * assumed.exchange_bandwidth)
    in_blocks = np.where((peers > 0) & ~is_library, by_threads, in_blocks)
    return np.asarray(np.minimum(in_words, sent / in_blocks + wait_s) + messages * message_s + starts_s)


def _exposed_seconds(link_s: Floats, mapping: Mapping, demand: Demand, spread: float) -> Floats:
    """Return the seconds of collectives of training that nothing hides, (n,). They run one after another beside the
    products: one that gathers weights is started when the one before it is waited for, sums of gradients as soon as
    these are known, and the last of all is waited for, on the slowest of devices whose times have this `spread`."""
    works_s = np.maximum.reduce((mapping.matrix_s[0], mapping.vector_s[0], mapping.dram_s[0])) * (link_s == 0.0)
    clock, links = works_s.cumsum(), np.flatnonzero(link_s > 0.0)
    exposed, waited, free, before = np.zeros_like(link_s), 0.0, 0.0, 0.0
    for i in links.tolist():
        now, gathers = clock[i] + waited, demand.vector_flops[i] == 0.0
        free = max(free, before if gathers else now) + link_s[i]
        if gathers or i == links[-1]:
            exposed[i] = max(free - now, 0.0)
            waited += exposed[i]
        before = now
    quantile = (demand.training_devices - 0.375) / (demand.training_devices + 0.25)  # Blom: of the largest of so many
    exposed[links[-1:]] += spread * NormalDist().inv_cdf(quantile) * clock[-1]
    return exposed


def _with_engine_formats(demand: Demand, setup: Setup) -> Demand:
    """Return the demand with the distances of weights that the device keeps on chip, the bytes of residuals, and the
    products of the runtime's library."""
    device, resident = setup.device, setup.runtime.resident
    transfers = demand.transfers
    is_weight, distance, size_bytes = transfers.role == READ_WEIGHT, transfers.distance, transfers.size_bytes
    values = _packed_products(demand, setup)
    if resident == "part":
        # The same part of every weight stays on chip: as much as the largest activations leave room for.
        room = np.maximum(device.last_level_bytes - demand.largest_bytes, 0.0)
        kept = np.minimum(room / np.maximum(demand.weight_bytes, 1.0), 1.0)[transfers.op]
        distance = np.where(is_weight, usable_last_level_bytes(device) - kept * size_bytes, distance)
        values["weight_bytes"] = np.zeros(demand.n)
    elif device.arch.is_managed and not resident:  # nothing placed weights on chip before the call
        distance = np.where(is_weight, np.inf, distance)
        values["weight_bytes"] = np.full(demand.n, np.inf)
    if setup.has_wide_residuals:  # convolutions and copies still move the narrow operands of products
        kernels = demand.per_kernel(np.isin(demand.op_class, BESIDE_PRODUCTS).astype(np.float64)) > 0
        is_wide = kernels[demand.kernel[transfers.op]] & ~is_weight
        size_bytes = size_bytes * np.where(is_wide, FORMATS[WIDE].bytes / demand.element_bytes, 1.0)
        demand = demand.with_transfers(size_bytes=size_bytes)
    if distance is not transfers.distance:
        demand = demand.with_transfers(distance=distance)
    return demand.with_values(**values) if values else demand


def _converts_weights(setup: Setup) -> bool:
    """Return True if a kernel writes packed weights in 16 bits before each block of rows is multiplied."""
    is_packed = setup.plan.widths.unpack_weights > 0 and FORMATS[setup.plan.operand].bits >= FORMATS[WIDE].bits
    return setup.device.software_class in setup.runtime.micro_batch and is_packed


def _packed_products(demand: Demand, setup: Setup) -> dict[str, Any]:
    """Return the rates of the runtime's products, except for those of one row, and what unpacks their weights."""
    device, runtime, library = setup.device, setup.runtime, setup.products
    name, family, on_vector = device.software_class, device.architecture, setup.plan.contraction[0] == "vector"
    m, unpack_ops, values = demand.gemm[1], demand.unpack_ops, dict[str, Any]()
    if runtime.compute:
        rate = _class_rates(setup, "compute", "vector" if on_vector else "")[demand.op_class]
        is_scaled = family in library.scaling_ops and FORMATS[setup.plan.contraction[1]].bits < FORMATS[WIDE].bits
        if unpack_ops is not None and not _converts_weights(setup):
            own = _class_rates(setup, "compute", "vector" if on_vector else setup.plan.weights)[demand.op_class]
            rate = np.where(unpack_ops > 0, _scaled_share(setup) if is_scaled else own, rate)
        if is_scaled and setup.plan.contraction[1] == "fp4":  # an instruction multiplies two blocks with their scales
            rate = np.where(demand.op_class == OpClass.GEMM, _scaled_share(setup), rate)
        if (side := library.expert_block_rows.get(family)) and not on_vector:
            rate = np.where(demand.is_expert, rate * _filled(demand, setup, side), rate)
        values["product_rate"] = np.where(m > 1, rate, 1.0)
    if unpack_ops is None:
        return values
    if on_vector and (factor := library.unpack_ops_factor.get(family)):
        unpack_ops = unpack_ops * factor.value
    if rows := library.unpack_rows.get(name):
        again = np.ceil(m / rows.value) / np.maximum(np.ceil(m / device.arch.constants.unpack_rows), 1.0)
        unpack_ops = unpack_ops * np.maximum(again, 1.0)
    return values | {"unpack_ops": unpack_ops}


def _filled(demand: Demand, setup: Setup, block_rows: float) -> Floats:
    """Return the share of rows with tokens in the blocks of each expert, (n,), half of whose last one is empty. Blocks
    are no wider than the tokens of a micro-batch; few tokens are products of vectors."""
    m, model, runtime = np.maximum(demand.gemm[1], 1.0), demand.model[demand.kernel], setup.runtime
    tokens = np.ones(int(model.max()) + 1)
    np.maximum.at(tokens, model, np.where((demand.op_class == OpClass.GEMM) & ~demand.is_expert, m, 1.0))
    at_once = runtime.micro_batch.get(setup.device.software_class)
    batches = np.ceil(tokens / at_once.value)[model] if at_once else 1.0
    few, whole = cast(GpuConstants, setup.device.arch.constants).packed_rows, tokens[model]
    half = np.minimum(block_rows, whole) / 2.0 * (whole > few)
    return np.asarray(m / np.maximum(m + half * batches, 1e-9))  # 0 without a product


def _scaled_share(setup: Setup) -> float:
    """Return the share of the time of a product in which its unit multiplies, if lanes scale and add up the sum of each
    block of K in between."""
    device, plan, library = setup.device, setup.plan, setup.products
    rate = device.mac_rate(*plan.contraction) * setup.product_share
    blocks = 2.0 if plan.contraction[1] == "fp4" else 1.0
    lane_ops = library.scaling_ops[device.architecture].value / blocks
    lane_ops /= cast(GpuConstants, device.arch.constants).scaled_block
    return 1.0 / (1.0 + lane_ops * rate / device.mac_rate("vector", BASE))


@memoize()
def _class_rates(setup: Setup, name: str, kind: str) -> Floats:
    """Return the shares in a table of the runtime by class of operator, one where none is stated."""
    table: dict[str, dict[str, SourcedValue]] = getattr(setup.runtime, name)
    shares = setup.find(table, kind) or {}
    return np.array([shares[name].value if name in shares else 1.0 for name in OpClass.__members__])


def _converted_bytes(mapping: Mapping, demand: Demand, setup: Setup) -> Floats | None:
    """Return the bytes, (n,), of kernels that read the weights of products as they are stored and write them in the
    format that is multiplied, in each call or for each block of rows of a prompt; None without such kernels."""
    plan, stored_bytes = setup.plan, setup.plan.widths.weights
    if setup.runtime.casts_weights and setup.is_narrow:
        times, stored_bytes = np.ones(demand.n), FORMATS[BASE].bytes
    elif _converts_weights(setup):
        at_once = setup.runtime.micro_batch[setup.device.software_class]
        few, m = cast(GpuConstants, setup.device.arch.constants).packed_rows, demand.gemm[1]
        times = np.where(m > few, np.ceil(m / at_once.value), 0.0)
    else:
        return None
    return mapping.traffic.weight_read / plan.widths.weights * times * (stored_bytes + plan.operand_bytes)


def _with_library_rates(mapping: Mapping, demand: Demand, setup: Setup, elementwise: float) -> Mapping:
    """Give long contiguous reads (weights of products, what attention reads) a share of the bandwidth of their own, and
    products the largest share of the peak and the bytes in flight of their library. Add the seconds of kernels that
    convert weights at the share `elementwise` of the bandwidth."""
    device, runtime, library = setup.device, setup.runtime, setup.products
    is_attention, is_product = demand.is_attention, demand.op_class == OpClass.GEMM
    largest = library.largest_peak_share.get(device.software_class)
    if largest and setup.plan.operand_bytes >= FORMATS[WIDE].bytes:
        matrix_s = np.maximum(mapping.matrix_s, np.where(is_product, mapping.matrix_ideal_s / largest.value, 0.0))
        mapping = msgspec.structs.replace(mapping, matrix_s=matrix_s)
    converted = _converted_bytes(mapping, demand, setup)
    packed = "packed" if setup.plan.widths.unpack_weights > 0 else ""
    share = setup.find(runtime.streaming, packed) or device.software.streaming
    flow = mapping.traffic
    streamed = np.where(is_attention, flow.dram_read, np.where(is_product, flow.weight_read, 0.0))
    rest = 1.0 - streamed / np.where(flow.dram_bytes > 0, flow.dram_bytes, 1.0)
    attention = setup.kernels.attention("attention_decode", 0.0, 1.0) if runtime.uses else None
    if attention is not None and attention.paged_blocks:  # query heads that share a cache are the rows of one product
        heads, rows = demand.gemm[:2]
        is_step = is_attention & (rows <= cast(GpuConstants, device.arch.constants).packed_rows)
        slower = np.where(heads * rows > attention.paged_blocks, attention.paged_share, 1.0)
        streamed = np.where(is_step, streamed * rows / slower, streamed)
    if converted is not None:
        starts_s = np.where(converted > 0, device.light_start_s, 0.0)
        mapping = add_serial(
            mapping, demand, passes_s=memory_seconds_of(device, converted, elementwise), starts_s=starts_s
        )
    if share is None:
        return mapping
    seconds = memory_seconds_of(device, streamed, share.value)
    if flight := library.bytes_in_flight.get(device.software_class):
        seconds = np.maximum(seconds, streamed / (device.units * device.clock_hz * flight.value))
    return msgspec.structs.replace(mapping, dram_s=mapping.dram_s * rest + seconds)


def quantise_activations(mapping: Mapping, demand: Demand, setup: Setup, rates: Efficiency) -> Mapping:
    """Return the mapping with the seconds of the kernels that quantise the left operands of products. Products in one
    kernel share their left operand. The operands of weights that stay wide are not quantised."""
    device, plan = setup.device, setup.plan
    if plan.operand == plan.stored:
        return mapping
    _, m, _, k = demand.gemm
    is_narrow = (demand.op_class == OpClass.GEMM) & demand.head & ~wide_products(demand, plan)
    values = np.where(is_narrow, np.maximum(demand.gemm[0], 1.0) * m * k, 0.0)
    is_local = FORMATS[plan.weights].block > 0  # values of a block are in registers when its scale is known
    moved = values * ((1.0 if is_local else 2.0) * plan.widths.activations + FORMATS[plan.operand].bytes)
    near = np.minimum(moved, device.last_level_bytes * cast(GpuConstants, device.arch.constants).quantised_in_cache)
    bandwidth = float(rates.bandwidth[0, OpClass.ELEMENTWISE if is_local else OpClass.ROW_NORM])
    passes_s = last_level_seconds(device, near) + memory_seconds_of(device, moved - near, bandwidth)
    return add_serial(mapping, demand, passes_s=passes_s, starts_s=is_narrow * device.light_start_s)
