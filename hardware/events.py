"""The taxonomy: which events each architecture spends energy on, and which constant prices each.

`component` is compute (arithmetic and the machinery that feeds it), memory (bytes moved) or static (seconds).
`family` and `argument` say where the price comes from (hardware/coefficients.py); `count` is the unit of the
count. Counts come from the graph and the mapping, never from latency times peak; only clock and static events
count cycles and seconds.
"""

from __future__ import annotations

import msgspec


class Event(msgspec.Struct, frozen=True):
    category: str
    name: str
    count: str
    component: str
    family: str
    argument: str = ""

    @property
    def is_overhead(self) -> bool:
        """Everything but arithmetic, data movement and static power."""
        return self.component == "compute" and self.family not in ("mac", "tensor_mac", "flop", "special")


def _table(*rows: tuple[str, str, str, str, str, str]) -> tuple[Event, ...]:
    return tuple(Event(*row) for row in rows)


_CLOCK = ("clock", "unit_cycles", "cycle", "compute", "clock", "")
_STATIC = (
    ("static", "leakage_and_idle", "s", "static", "static", "logic"),
    ("static", "memory_background", "s", "static", "static", "memory"),
)
_DRAM = (
    ("memory", "dram_read", "byte", "memory", "dram", "read"),
    ("memory", "dram_write", "byte", "memory", "dram", "write"),
)

CPU = _table(
    ("pipeline", "instruction_fetch", "instruction", "compute", "logic", "cpu_fetch"),
    ("pipeline", "decode", "instruction", "compute", "logic", "cpu_decode"),
    ("pipeline", "rename_dispatch", "instruction", "compute", "logic", "cpu_dispatch"),
    ("pipeline", "retire", "instruction", "compute", "logic", "cpu_retire"),
    ("pipeline", "operator_dispatch", "operator", "compute", "logic", "cpu_operator_dispatch"),
    ("pipeline", "thread_fork_join", "thread", "compute", "logic", "cpu_fork_join"),
    ("register", "scalar_read", "byte", "compute", "logic", "register_read"),
    ("register", "scalar_write", "byte", "compute", "logic", "register_write"),
    ("register", "vector_read", "byte", "compute", "logic", "register_read"),
    ("register", "vector_write", "byte", "compute", "logic", "register_write"),
    ("register", "bypass", "byte", "compute", "logic", "bypass"),
    ("memory", "l1_load", "byte", "memory", "sram_read", "l1_bytes_per_unit"),
    ("memory", "l1_store", "byte", "memory", "sram_write", "l1_bytes_per_unit"),
    ("memory", "l2_load", "byte", "memory", "sram_read", "l2_bytes_each"),
    ("memory", "l2_store", "byte", "memory", "sram_write", "l2_bytes_each"),
    ("memory", "l3_load", "byte", "memory", "far_sram_read", "last_level"),
    ("memory", "l3_store", "byte", "memory", "far_sram_write", "last_level"),
    *_DRAM,
    ("memory", "tlb_lookup", "lookup", "memory", "logic", "tlb"),
    ("alu", "scalar_operation", "operation", "compute", "flop", "integer"),
    ("alu", "vector_mac", "MAC", "compute", "mac", "vector"),
    ("alu", "vector_flop", "FLOP", "compute", "flop", "vector"),
    ("alu", "matrix_mac", "MAC", "compute", "mac", "matrix"),
    ("alu", "special_function", "evaluation", "compute", "special", ""),
    ("branch", "predicted", "branch", "compute", "logic", "branch"),
    ("branch", "mispredicted", "branch", "compute", "logic", "branch_miss"),
    _CLOCK,
    *_STATIC,
)

GPU = _table(
    ("compute", "tensor_core_mac", "MAC", "compute", "tensor_mac", "matrix"),
    ("compute", "cuda_core_mac", "MAC", "compute", "mac", "vector"),
    ("compute", "cuda_core_flop", "FLOP", "compute", "flop", "vector"),
    ("compute", "special_function", "evaluation", "compute", "special", ""),
    ("compute", "integer_address", "operation", "compute", "flop", "integer"),
    ("register", "file_read", "byte", "compute", "logic", "gpu_register_read"),
    ("register", "file_write", "byte", "compute", "logic", "gpu_register_write"),
    ("register", "operand_collector", "warp instruction", "compute", "logic", "gpu_operand_collector"),
    ("pipeline", "warp_fetch", "warp instruction", "compute", "logic", "gpu_fetch"),
    ("pipeline", "warp_decode", "warp instruction", "compute", "logic", "gpu_decode"),
    ("pipeline", "warp_schedule", "warp instruction", "compute", "logic", "gpu_schedule"),
    ("pipeline", "block_schedule", "block", "compute", "logic", "gpu_block_schedule"),
    ("memory", "shared_read", "byte", "memory", "sram_read", "shared_bank"),
    ("memory", "shared_write", "byte", "memory", "sram_write", "shared_bank"),
    ("memory", "l1_read", "byte", "memory", "sram_read", "l1_bytes_per_unit"),
    ("memory", "l1_write", "byte", "memory", "sram_write", "l1_bytes_per_unit"),
    ("memory", "l2_read", "byte", "memory", "far_sram_read", "last_level"),
    ("memory", "l2_write", "byte", "memory", "far_sram_write", "last_level"),
    *_DRAM,
    ("simt_control", "divergence", "warp instruction", "compute", "logic", "gpu_divergence"),
    ("simt_control", "coalescing", "transaction", "compute", "logic", "gpu_coalesce"),
    ("simt_control", "barrier", "barrier", "compute", "logic", "gpu_barrier"),
    ("simt_control", "coherence", "line", "compute", "logic", "gpu_coherence"),
    ("launch", "kernel_launch", "kernel", "compute", "logic", "gpu_launch"),
    ("launch", "host_dispatch", "kernel", "compute", "logic", "gpu_host_dispatch"),
    ("launch", "grid_drain", "unit", "compute", "logic", "gpu_drain"),
    _CLOCK,
    *_STATIC,
)

TPU = _table(
    ("systolic", "mac", "MAC", "compute", "mac", "matrix"),
    ("systolic", "operand_forward", "byte", "compute", "logic", "pe_forward"),
    ("systolic", "partial_sum_forward", "byte", "compute", "logic", "pe_forward"),
    ("systolic", "fill_drain", "array cycle", "compute", "logic", "array_bubble"),
    ("weights", "fifo_write", "byte", "memory", "sram_write", "fifo"),
    ("weights", "fifo_read", "byte", "memory", "sram_read", "fifo"),
    ("weights", "shift_load", "byte", "compute", "logic", "pe_forward"),
    ("on_chip", "scratchpad_read", "byte", "memory", "far_sram_read", "last_level"),
    ("on_chip", "scratchpad_write", "byte", "memory", "far_sram_write", "last_level"),
    ("on_chip", "vector_memory_read", "byte", "memory", "sram_read", "vector_memory"),
    ("on_chip", "vector_memory_write", "byte", "memory", "sram_write", "vector_memory"),
    ("on_chip", "accumulator_read", "byte", "memory", "sram_read", "accumulator"),
    ("on_chip", "accumulator_write", "byte", "memory", "sram_write", "accumulator"),
    ("vector", "mac", "MAC", "compute", "mac", "vector"),
    ("vector", "flop", "FLOP", "compute", "flop", "vector"),
    ("vector", "special_function", "evaluation", "compute", "special", ""),
    ("vector", "register_access", "byte", "compute", "logic", "register_read"),
    ("vector", "scalar_operation", "operation", "compute", "flop", "integer"),
    ("hbm", "dram_read", "byte", "memory", "dram", "read"),
    ("hbm", "dram_write", "byte", "memory", "dram", "write"),
    ("control", "bundle_issue", "bundle", "compute", "logic", "vliw_bundle"),
    ("control", "dma_descriptor", "descriptor", "compute", "logic", "dma_descriptor"),
    ("control", "program_launch", "kernel", "compute", "logic", "accelerator_launch"),
    ("control", "barrier", "barrier", "compute", "logic", "accelerator_barrier"),
    _CLOCK,
    *_STATIC,
)

KPU = _table(
    ("tile", "mac", "MAC", "compute", "mac", "matrix"),
    ("tile", "operand_stream", "byte", "compute", "logic", "pe_forward"),
    ("tile", "result_stream", "byte", "compute", "logic", "pe_forward"),
    ("tile", "vector_mac", "MAC", "compute", "mac", "vector"),
    ("tile", "vector_flop", "FLOP", "compute", "flop", "vector"),
    ("tile", "special_function", "evaluation", "compute", "special", ""),
    ("tile", "pe_register", "byte", "compute", "logic", "register_read"),
    ("tile_memory", "read", "byte", "memory", "sram_read", "tile_memory"),
    ("tile_memory", "write", "byte", "memory", "sram_write", "tile_memory"),
    ("shared_memory", "read", "byte", "memory", "sram_read", "memory_tile"),
    ("shared_memory", "write", "byte", "memory", "sram_write", "memory_tile"),
    ("dram", "dram_read", "byte", "memory", "dram", "read"),
    ("dram", "dram_write", "byte", "memory", "dram", "write"),
    ("dram", "streamer_descriptor", "descriptor", "compute", "logic", "dma_descriptor"),
    ("network_on_chip", "hop", "byte hop", "memory", "logic", "noc_hop"),
    ("network_on_chip", "token_injection", "byte", "memory", "logic", "noc_port"),
    ("network_on_chip", "token_extraction", "byte", "memory", "logic", "noc_port"),
    ("domain_flow", "domain_tracking", "wavefront", "compute", "logic", "domain_tracking"),
    ("domain_flow", "wavefront_setup", "tile", "compute", "logic", "wavefront_setup"),
    ("domain_flow", "program_load", "kernel", "compute", "logic", "accelerator_launch"),
    ("domain_flow", "fill_drain", "array cycle", "compute", "logic", "array_bubble"),
    ("synchronisation", "tile_barrier", "tile", "compute", "logic", "tile_sync"),
    ("synchronisation", "kernel_barrier", "barrier", "compute", "logic", "accelerator_barrier"),
    _CLOCK,
    *_STATIC,
)

EVENTS: dict[str, tuple[Event, ...]] = {"cpu": CPU, "gpu": GPU, "tpu": TPU, "kpu": KPU}

# TPU and CPU both have a MAC or read of several kinds: `category.name` is the unique label of an event.
INDEX: dict[str, dict[str, int]] = {
    architecture: {f"{event.category}.{event.name}": i for i, event in enumerate(table)}
    for architecture, table in EVENTS.items()
}
