"""Structural constants of the mappings, which shape counts and times: the values of `assumptions` in the data files of
architectures (hardware/architectures/*.toml), where each has its unit, low, high, source and quality."""

import msgspec


class Constants(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Constants of every architecture: common.toml has the values of those that its own file does not state."""

    price_node: float  # nm
    price_node_gain: float  # exponent
    price_clock: float  # Hz
    price_clock_gain: float  # exponent
    matrix_clock_bound: float  # fraction
    light_launch: float  # fraction
    special_flops: float  # FLOP
    elements_per_block: float  # element
    pinned_share: float  # fraction
    link_words_reached: float  # fraction
    link_blocks_reached: float  # fraction
    link_block_s: float  # s
    exchange_reached: float  # fraction
    exchange_bandwidth: float  # byte/s
    library_words_reached: float  # fraction
    library_block_s: float  # s
    pair_link_bandwidth: float  # byte/s
    pair_blocks_reached: float  # fraction
    library_exchange_words: float  # byte
    dependent_step_s: float  # s/column
    launch_clocked: float  # fraction
    accumulator_bytes: float  # byte
    vector_operands: float  # register/operation
    dma_bytes: float  # byte
    last_level_reached: float  # fraction
    unpack_rows: float  # row
    split_rate: float  # x unsplit


class CpuConstants(Constants, frozen=True, kw_only=True):
    """Constants of cores that also dispatch: instructions of library code, rearranged tensors, parallel regions."""

    reorder_regions: float  # region
    plain_reorder_regions: float  # region
    serial_elements: float  # element
    preferred_tile: float  # element
    plain_pool_cycles: float  # cycle/tap
    plain_pool_window: float  # tap
    plain_copy_bytes: float  # byte/clock
    reorder_passes: float  # pass
    fma_ports: float  # port
    loads_per_vector_mac: float  # load/instruction
    cycles_per_matrix_instruction: float  # cycle
    matrix_tile_bytes: float  # byte
    scalar_per_vector: float  # instruction/instruction
    scalar_read_bytes: float  # byte/instruction
    scalar_write_bytes: float  # byte/instruction
    vector_reads: float  # register/instruction
    instructions_per_branch: float  # instruction
    mispredicted: float  # fraction
    instructions_per_cycle: float  # instruction/cycle
    loads_per_scalar: float  # access/instruction


class GpuConstants(Constants, frozen=True, kw_only=True):
    """Constants of multiprocessors and of the kernels that libraries have for them."""

    bulk_step_cycles: float  # cycle
    step_cycles: float  # cycle
    fill_steps: float  # step
    scaled_block: float  # value
    preferred_tile: float  # element
    matrix_instruction_macs: float  # MAC
    matrix_instruction_read_bytes: float  # byte
    matrix_instruction_write_bytes: float  # byte
    lane_read_bytes: float  # byte
    lane_write_bytes: float  # byte
    instruction_rows: float  # row
    few_channels_bytes: float  # byte
    few_channels_rate: float  # fraction
    pool_window: float  # element
    pool_rate: float  # element/cycle
    reduce_rate: float  # element/cycle
    norm_rate: float  # element/cycle
    softmax_rate: float  # element/cycle
    address_ops: float  # operation
    norm_row_cycles: float  # cycle
    norm_latency_cycles: float  # cycle
    norm_value_cycles: float  # cycle
    depthwise_nchw_rate: float  # fraction
    norm_casts: float  # kernel
    rule_columns: float  # column
    grouped_rate: float  # MAC/cycle
    grouped_suited_columns: float  # column
    grouped_suited_rate: float  # MAC/cycle
    strided_rate: float  # element/cycle
    rearranged_passes: float  # x
    rule_kernels_rate: float  # fraction
    rule_tile: float  # row
    feed_overlap: float  # exponent
    packed_rows: float  # row
    attention_rows: float  # row
    attention_columns: float  # key
    attention_partial_tile: float  # tile
    decoding_blocks: float  # block
    attention_start_cycles: float  # cycle
    unpaged_start_cycles: float  # cycle
    vector_rows: float  # row
    grouped_blocks: float  # block
    routing_kernels: float  # kernel
    grouped_unpack_rows: float  # row
    quantised_in_cache: float  # fraction
    warp_threads: float  # thread
    integer_per_element: float  # operation
    warp_bytes: float  # byte
    divergent: float  # fraction
    padding_price: float  # x a MAC
    sampled_on_device: float  # fraction
    expert_rows: float  # row
    decoding_rows: float  # row
    bulk_decoding_rows: float  # row
    depthwise_instructions: float  # instruction/MAC
    vector_register_tile: float  # element
    matrix_warp_tile: float  # element
    bulk_tile_rows: float  # element
    bulk_tile_columns: float  # element
    bulk_instruction_macs: float  # MAC
    panel_tile: float  # element
    bulk_panel_tile: float  # element
    load_bytes: float  # byte
    path_units: float  # SM
    integer_activity: float  # x the activity
    barrier_k_step: float  # element
    barriers_per_k_step: float  # barrier
    block_threads: float  # thread
    most_registers: float  # register/thread
    register_bytes: float  # byte
    elementwise_registers: float  # register/thread
    tile_registers: float  # register/thread
    tile_stages: float  # stage
    tile_step_bytes: float  # byte
    shared_part: float  # fraction


class TpuConstants(Constants, frozen=True, kw_only=True):
    """Constants of systolic arrays."""

    shift_distance: float  # x rows
    scalar_per_bundle: float  # operation/bundle
    vector_memory_writes: float  # fraction


class NpuConstants(Constants, frozen=True, kw_only=True):
    """Constants of arrays fed by a managed memory."""

    usable_units: float  # fraction
    image_value_flops: float  # FLOP/value
    hops: float  # hop


class KpuConstants(Constants, frozen=True, kw_only=True):
    """Constants of domain-flow fabrics."""

    hops_per_side: float  # hop/tile
    streamed_operands: float  # operand/MAC
    divide_cycles: float  # cycle
