"""Libraries of kernels: each is used by an engine, and estimates use the constants of the library that fits."""

import re
import tomllib

import msgspec
import numpy as np
import pytest

from analysis.estimate.kernels import demand
from analysis.model import store
from analysis.serving.deployment import open_step
from hardware import architecture_facts
from hardware.base import file_access
from hardware.demand import READ_WEIGHT, WRITE, OpClass
from hardware.device_catalog import load_device
from hardware.engines.runtime import (
    AttentionLibrary,
    ExpertLibrary,
    KernelCall,
    KernelUse,
    ProductLibrary,
    Runtime,
    Scheduler,
    attention_libraries,
    expert_libraries,
    find_use,
    product_libraries,
    runtimes,
)
from hardware.execute import execute
from hardware.mapping.kernel_passes import move_expert_rows, zero_rows_s
from hardware.setup import find_setup, make_setup
from lab import SUPERSEDED
from tests.analysis import grid
from tests.test_house import sources

# Fields that tables of single operators need, whose shapes tell what estimates do not know: how query heads share a
# block, and rows of experts on other devices. No field may join them.
OF_TABLES = ("packs", "masks_window", "is_absorbed", "adds_all", "writes_all", "pads")
USES = [use for runtime in runtimes().values() for use in runtime.uses]


def test_every_library_is_used_by_an_engine() -> None:
    older = tomllib.loads(SUPERSEDED.read_text(encoding="utf-8"))["runtimes"].values()
    used = {use.library for use in USES} | {"default", "marlin"}
    used |= {use["library"] for runtime in older for use in runtime.get("uses", ())}
    assert used == attention_libraries().keys() | expert_libraries().keys()
    products = {runtime.products for runtime in runtimes().values()}
    products |= {runtime["products"] for runtime in older if "products" in runtime}
    assert products == product_libraries().keys()


@pytest.mark.parametrize("kind", [Runtime, Scheduler, ProductLibrary, AttentionLibrary, ExpertLibrary])
def test_every_field_of_engines_and_libraries_is_read_by_an_estimate(kind: type[msgspec.Struct]) -> None:
    read = "".join(text for path, text in sources().items() if not re.match("hwexplorer_annexes|lab", path))
    unread = {name for name in kind.__struct_fields__ if not re.search(rf"\.{name}\b", read)}
    assert unread <= {"base", "source", "quality", "version", *OF_TABLES}


def test_every_library_is_reached_by_an_estimate_or_named_by_a_table() -> None:
    """Those that no estimate takes are other kernels of an engine, which a table or a window tells apart."""
    reached = {"default", "marlin"}
    formats = (
        "bf16",
        "fp8",
        "bf16 bf16",
        "fp8_block fp8_block",
        "int4 bf16",
        "mxfp4 bf16",
        "mxfp4 mxfp8",
        "nvfp4 nvfp4",
    )
    for runtime in runtimes().values():
        for use in runtime.uses:
            for generation in ("ampere", "hopper", "blackwell", "intel"):
                for form in formats:
                    for width in (64.0, 72.0, 128.0, 192.0, 256.0, 512.0):
                        call = KernelCall(operator=use.operator[0], generation=generation, formats=form, width=width)
                        for changes in ({}, {"group": 8.0}, {"group": 64.0}, {"divided": True}):
                            reached.add(find_use(runtime.uses, msgspec.structs.replace(call, **changes)).library)
    rest = {use.library for use in USES} - reached
    others = [use for use in USES if use.library in rest]
    assert all(use.kernel or use.windowed or use.formats == ("fp8",) for use in others)
    assert len(rest) <= 12


@pytest.mark.parametrize("kind", [attention_libraries, expert_libraries], ids=["attention", "experts"])
def test_every_library_has_a_source_and_plain_constants(kind: object) -> None:
    libraries = kind()  # type: ignore[operator]
    for name, library in libraries.items():
        assert len(library.source) > 8, name
        assert 0 < library.rate <= 1.0, name


def test_generations_follow_from_facts() -> None:
    generations = {"a100_sxm4_80gb": "ampere", "l40s": "ampere", "rtx_5090": "ampere", "h200_sxm": "hopper"}
    generations |= {"b200": "blackwell", "gb300": "blackwell", "arc_pro_b60": "intel", "mi300x": "amd"}
    assert {name: load_device(name).kernel_generation for name in generations} == generations


def test_an_engine_takes_other_kernels_on_another_generation() -> None:
    """vLLM decodes with FlashAttention-3 on Hopper, whose instructions have 64 rows, and with -2 on Ampere."""
    hopper, ampere = (
        find_setup(load_device(name), "vllm", "language", "bf16", "nchw").kernels
        for name in ("h100_sxm", "a100_sxm4_80gb")
    )
    assert hopper.attention("attention_decode", 128.0, 8.0) == attention_libraries()["fa3_decode"]
    assert ampere.attention("attention_decode", 128.0, 8.0) == attention_libraries()["fa2_decode"]
    assert hopper.experts(True) == expert_libraries()["triton_untuned"] != hopper.experts(False)


def test_widths_of_experts_are_padded_as_they_are_stored() -> None:
    """vLLM stores experts of gpt-oss, 2,880 wide, as 3,072 on Blackwell."""
    result = grid.run("gpt_oss_120b:decode", "b200", 1, "mxfp4", "vllm")
    needs = result.demand
    is_product = needs.is_expert & (needs.op_class == OpClass.GEMM)
    read, stated = (
        each[is_product] for each in (result.run.mapping.traffic.weight_read, needs.moved_bytes[READ_WEIGHT])
    )
    assert read / stated == pytest.approx(np.full(is_product.sum(), (3072 / 2880) ** 2))


def test_every_constant_and_menu_of_tiles_is_used() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in architecture_facts.COMMON.parents[1].rglob("*.py"))
    kinds = (
        architecture_facts.CpuConstants,
        architecture_facts.GpuConstants,
        architecture_facts.TpuConstants,
        architecture_facts.NpuConstants,
    )
    fields = {name for kind in (*kinds, architecture_facts.KpuConstants) for name in kind.__struct_fields__}
    assert {name for name in fields if not re.search(rf"\.{name}\b", code)} == set()
    tiles = file_access.shipped(architecture_facts.COMMON.with_name("gpu.toml"))["tiles"]
    assert [name for name in tiles if f'"{name}"' not in code] == []


_DECODE = ("attention_decode",)


def test_rows_of_experts_are_copied_padded_and_added_up_as_their_library_does() -> None:
    step = open_step("mixtral_8x7b:sequence=64,tp=8,ep=8")
    moved, zeros_s = {}, {}
    for library in ("trtllm_gen", "cutlass", "deepgemm", "triton"):
        runtime = msgspec.structs.replace(runtimes()["vllm"], uses=(KernelUse(operator=("moe",), library=library),))
        setup = make_setup(load_device("h100_sxm"), "bf16", runtime)
        whole = demand(step, 1, setup.plan.widths, setup.joins)
        after = move_expert_rows(whole, setup)
        gathers = np.flatnonzero(whole.is_expert & (whole.op_class == OpClass.GATHER))[:2]
        moved[library] = [after.moved_bytes[role][op] for op, role in zip(gathers, (WRITE, 0), strict=True)]
        zeros_s[library] = zero_rows_s(whole, setup, 1.0).sum()
    copied, added = ({name: values[i] for name, values in moved.items()} for i in range(2))
    assert 0.0 == copied["trtllm_gen"] == copied["triton"] < copied["cutlass"] < copied["deepgemm"]
    assert added["cutlass"] < added["trtllm_gen"] < added["triton"]
    assert zeros_s["triton"] > 0.0 == zeros_s["cutlass"]


def test_query_heads_decode_in_blocks_of_their_own_if_a_library_does_not_pack_them() -> None:
    """71 heads of Falcon 7B share keys: each has a block of 64 rows of an H100's instructions."""
    step, latency_s = store.ready("falcon_7b:decode,layers=1", None).bound(sequence=1, kv=2048), list[float]()
    for library in ("default", "unpacked"):
        runtime = msgspec.structs.replace(runtimes()["vllm"], uses=(KernelUse(operator=_DECODE, library=library),))
        setup = make_setup(load_device("h100_sxm"), "bf16", runtime)
        latency_s.append(float(execute(demand(step, 64, setup.plan.widths, setup.joins), setup).kernel_s.sum()))
    assert latency_s[1] > 1.04 * latency_s[0]
