"""The mapping of a demand to a device as the runtime executes it: weights on chip, rates of the runtime's kernels,
attention, and collectives."""

from __future__ import annotations

import msgspec
import numpy as np

from hardware.demand import READ_WEIGHT, Demand, Floats, OpClass
from hardware.device import Device
from hardware.efficiency import Efficiency
from hardware.mapping.attention_blocks import time_attention
from hardware.mapping.common import Mapping, add_serial, memory_seconds_of, usable_last_level_bytes
from hardware.mapping.quantisation import quantise_activations, widen_residuals
from hardware.mapping.untuned_kernels import untuned_kernels
from hardware.precision import BASE, FORMATS, WIDE
from hardware.quantity import SourcedValue
from hardware.setup import Setup


def map_demand(demand: Demand, setup: Setup, rates: Efficiency) -> Mapping:
    """Map each operator to the device, at each setting of the efficiencies."""
    device, runtime = setup.device, setup.runtime
    keeps = device.arch.keeps_weights
    if device.arch.is_managed and not (runtime.resident or keeps):  # nothing placed weights on chip before the call
        distance = np.where(demand.transfers.role == READ_WEIGHT, np.inf, demand.transfers.distance)
        demand = demand.with_transfers(distance=distance).with_values(weight_bytes=np.full(demand.n, np.inf))
    if runtime.resident == "part" or keeps:
        demand = _with_parameter_cache(demand, device)
    demand = widen_residuals(_with_own_kernels(demand, setup), setup)
    is_narrow = demand.element_bytes < FORMATS[BASE].bytes
    for table in (runtime.bandwidth, runtime.narrow if is_narrow else {}):
        if shares := table.get(device.software_class):
            rates = msgspec.structs.replace(rates, bandwidth=rates.bandwidth * _rates(shares))
    untuned = None
    if runtime.untuned:
        demand, untuned = untuned_kernels(demand, setup)
    mapping = device.arch.map_operators(demand, setup, rates)
    if untuned is not None:
        mapping = untuned.add_to(mapping, demand)
    packed = runtime.streaming_packed.get(device.software_class) if setup.plan.widths.unpack_weights else None
    streaming = packed or runtime.streaming.get(device.software_class) or device.software.streaming
    if streaming is not None:
        mapping = _with_streaming(mapping, demand, setup, streaming.value)
    if runtime.casts_weights and is_narrow:
        mapping = _with_converted_weights(mapping, demand, setup, rates, FORMATS[BASE].bytes, np.ones(demand.n))
    if _converts_weights(setup):
        at_once = runtime.micro_batch[device.software_class]
        few, m = device.arch.data.assumed("packed_rows"), demand.gemm[1]
        times = np.where(m > few, np.ceil(m / at_once.value), 0.0)
        mapping = _with_converted_weights(mapping, demand, setup, rates, setup.plan.widths.weights, times)
    if reached := runtime.reached.get(device.software_class):
        least_s = np.where(demand.op_class == OpClass.GEMM, mapping.matrix_ideal_s / reached.value, 0.0)
        mapping = msgspec.structs.replace(mapping, matrix_s=np.maximum(mapping.matrix_s, least_s))
    mapping = time_attention(mapping, demand, setup, rates)
    mapping = quantise_activations(mapping, demand, setup, rates)
    if demand.links is None:
        return mapping
    link_s = link_seconds(demand.links, device, runtime.library_collectives, runtime.collective_s.value)
    busy_s = None if mapping.busy_s is None else mapping.busy_s + demand.per_kernel(link_s)
    return msgspec.structs.replace(mapping, dram_s=mapping.dram_s + link_s, busy_s=busy_s)


def _converts_weights(setup: Setup) -> bool:
    """Return True if a kernel writes packed weights in 16 bits before each block of rows is multiplied."""
    is_packed = setup.plan.widths.unpack_weights > 0 and FORMATS[setup.plan.operand].bits >= FORMATS[WIDE].bits
    return setup.device.software_class in setup.runtime.micro_batch and is_packed


def link_seconds(links: Floats, device: Device, by_library: bool = False, start_s: float = 0.0) -> Floats:
    """Return the seconds of collectives, (n,), from `links` (4, n) of a Demand. Take the faster of words with flags, at
    a part of the speed, and large blocks that are waited for: in an exchange each round, in a library's ring once.
    Without links of all devices with each other, collectives are a library's."""
    sent, messages, stated, peers = links
    speed, assumed = np.where(stated > 0, stated, device.link_bandwidth), device.arch.data.assumed
    is_pair = speed <= assumed("pair_link_bandwidth")
    is_library = by_library | is_pair
    words = assumed("library_words_reached" if by_library else "link_words_reached")
    in_words = sent / (speed * np.where(is_pair, assumed("link_words_reached"), words))
    in_words[(peers > 0) & (sent > is_library * peers * assumed("library_exchange_words"))] = np.inf
    message_s = np.where(is_library, max(device.link_latency_s, device.library_message_s), device.link_latency_s)
    starts_s = np.where(messages > 0, start_s + is_library * device.library_start_s, 0.0)
    wait_s = np.where(is_library & (peers == 0), assumed("library_block_s"), messages * assumed("link_block_s"))
    blocks = np.where(is_pair, assumed("pair_blocks_reached"), assumed("link_blocks_reached"))
    seconds: Floats = np.minimum(in_words, sent / (speed * blocks) + wait_s) + messages * message_s + starts_s
    return seconds


def _with_own_kernels(demand: Demand, setup: Setup) -> Demand:
    """Set the rates of the runtime's kernels, except for products of one row, and the rows that share an unpacking."""
    device, runtime = setup.device, setup.runtime
    name, on_vector = device.software_class, setup.plan.contraction[0] == "vector"
    of_unit = runtime.compute_vector if on_vector and name in runtime.compute_vector else runtime.compute
    plain, rows = _rates(of_unit.get(name, {})), runtime.unpack_rows.get(name)
    m = demand.gemm[1]
    if of_unit or runtime.compute_packed:
        rate = plain[demand.op_class]
        if demand.unpack_ops is not None and not _converts_weights(setup):
            own = _rates(runtime.compute_packed[name])[demand.op_class] if name in runtime.compute_packed else rate
            packed = _scaled_share(setup) if name in runtime.scaling_ops else own
            rate = np.where(demand.unpack_ops > 0, packed, rate)
        demand = demand.with_values(product_rate=np.where(m > 1, rate, 1.0))
    if demand.unpack_ops is not None and on_vector and name in runtime.widening:
        demand = demand.with_values(unpack_ops=demand.unpack_ops * runtime.widening[name].value)
    if rows and demand.unpack_ops is not None:
        again = np.ceil(m / rows.value) / np.maximum(np.ceil(m / device.arch.data.assumed("unpack_rows")), 1.0)
        demand = demand.with_values(unpack_ops=demand.unpack_ops * np.maximum(again, 1.0))
    return demand


def _scaled_share(setup: Setup) -> float:
    """Return the share of the time of a product in which its unit multiplies, if lanes scale and add up the sum of each
    block of K in between."""
    device, plan, runtime = setup.device, setup.plan, setup.runtime
    rate = device.mac_rate(*plan.contraction) * runtime.matrix_share(device, plan.operand)
    lane_ops = runtime.scaling_ops[device.software_class].value / device.arch.data.assumed("scaled_block")
    return 1.0 / (1.0 + lane_ops * rate / device.mac_rate("vector", BASE))


def _rates(shares: dict[str, SourcedValue]) -> Floats:
    """Return the shares as an array by class of operator, one where none is stated."""
    return np.array([shares[name].value if name in shares else 1.0 for name in OpClass.__members__])


def _with_parameter_cache(demand: Demand, device: Device) -> Demand:
    """Keep the same part of every weight on chip: as much as the largest activations leave room for."""
    is_weight = demand.transfers.role == READ_WEIGHT
    room = np.maximum(device.last_level_bytes - demand.largest_bytes, 0.0)
    kept = np.minimum(room / np.maximum(demand.weight_bytes, 1.0), 1.0)[demand.transfers.op]
    usable = usable_last_level_bytes(device)
    distance = np.where(is_weight, usable - kept * demand.transfers.size_bytes, demand.transfers.distance)
    return demand.with_transfers(distance=distance).with_values(weight_bytes=np.zeros(demand.n))


def _with_converted_weights(
    mapping: Mapping, demand: Demand, setup: Setup, rates: Efficiency, stored_bytes: float, times: Floats
) -> Mapping:
    """Add kernels that read the weights of products at `stored_bytes` a value and write them in the format that is
    multiplied, `times` (n,) in each call."""
    device, plan = setup.device, setup.plan
    values = mapping.traffic.weight_read / plan.widths.weights * times
    moved = values * (stored_bytes + plan.operand_bytes)
    passes_s = memory_seconds_of(device, moved, float(rates.bandwidth[0, OpClass.ELEMENTWISE]))
    starts_s = np.where(values > 0, device.light_start_s, 0.0)
    return add_serial(mapping, demand, passes_s=passes_s, starts_s=starts_s)


def _with_streaming(mapping: Mapping, demand: Demand, setup: Setup, share: float) -> Mapping:
    """Give long contiguous reads (weights of products, what attention reads) a `share` of the bandwidth of their own. A
    runtime's products may keep fewer bytes in flight than the memory needs."""
    device, runtime = setup.device, setup.runtime
    flow = mapping.traffic
    is_attention, is_product = demand.is_attention, demand.op_class == OpClass.GEMM
    streamed = np.where(is_attention, flow.dram_read, np.where(is_product, flow.weight_read, 0.0))
    rest = 1.0 - streamed / np.where(flow.dram_bytes > 0, flow.dram_bytes, 1.0)
    library = setup.kernels.attention("attention_decode", 0.0, 1.0) if runtime.uses else None
    if library is not None and library.paged_blocks:  # query heads that share a cache are the rows of one product
        heads, rows = demand.gemm[:2]
        is_step = is_attention & (rows <= device.arch.data.assumed("packed_rows"))
        slower = np.where(heads * rows > library.paged_blocks, library.paged_share, 1.0)
        streamed = np.where(is_step, streamed * rows / slower, streamed)
    seconds = memory_seconds_of(device, streamed, share)
    if flight := runtime.in_flight.get(device.software_class):
        seconds = np.maximum(seconds, streamed / (device.units * device.clock_hz * flight.value))
    return msgspec.structs.replace(mapping, dram_s=mapping.dram_s * rest + seconds)
