"""What software does on CPUs: it streams weights, rearranges tensors in parallel regions, and joins its threads."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import grid
import msgspec
import pytest

from analysis.estimate.estimate import estimate
from analysis.estimate.scenario import Scenario
from analysis.measured import predictions
from analysis.measured.predictions import interpret_row
from analysis.model.store import ready
from hardware.demand import OpClass
from hardware.device import Device
from hardware.device_catalog import load_device
from hardware.engines.runtime import runtimes
from hardware.execute import execute
from hardware.setup import make_setup
from lab.measured_rows import FITTED_ON, shipped_rows
from tests.sampling import for_each


def _cores(folder: Path, count: float) -> Device:
    def change(data: dict[str, Any]) -> None:
        data["facts"]["units"]["value"] = count

    return grid.altered(folder, "xeon_8380", change, f"cores_{count:.0f}")


@pytest.mark.parametrize("runtime", ["pytorch_eager", "torch_compile", "onnxruntime", "openvino", "fused"])
def test_weights_stream_from_memory_alike_in_every_runtime(runtime: str) -> None:
    """A linear layer of one row moves its weights at the share of bandwidth that streams reach, whoever calls it."""
    on = grid.device("xeon_8380")
    result = grid.run(grid.toy_gemm(1, 32768, 32768), on, 1, "fp32_strict", runtime)
    share = 4.0 * 32768**2 / float(result.run.kernel_memory_s.sum()) / on.memory_bandwidth
    streaming = on.software.streaming
    assert streaming is not None
    assert share == pytest.approx(streaming.value, rel=0.05)


def test_joining_more_threads_takes_longer(tmp_path: Path) -> None:
    few, many = (
        grid.run("resnet18", _cores(tmp_path, n), 1, "fp32", "eager").run.overhead_s.sum() for n in (8.0, 192.0)
    )
    assert many > few
    alone = grid.run("resnet18", _cores(tmp_path, 1.0), 1, "fp32", "eager")
    on = alone.device
    products = int(alone.demand.head[alone.demand.macs > 0].sum())
    starts_s = products * on.kernel_start_s + (alone.demand.n_kernels - products) * on.light_start_s
    expected = starts_s + on.dispatch_s * alone.demand.n_kernels
    assert alone.run.overhead_s.sum() == pytest.approx(expected), "one thread joins no other"


def test_small_work_stays_on_one_thread() -> None:
    on = grid.device("xeon_8380")
    result = grid.run("resnet18", on, 1, "fp32", "eager")
    heads = result.demand.head & (result.demand.macs == 0) & (result.demand.elements < 32768)
    kernels = result.demand.kernel[heads]
    assert len(kernels)
    assert (result.run.overhead_s[kernels] <= on.kernel_start_s + on.dispatch_s + 1e-12).all()


def test_plain_layouts_take_more_parallel_regions_than_blocked_ones() -> None:
    """Convolutions under NCHW rearrange input, weights and result; an engine keeps one blocked layout."""
    on = grid.device("xeon_8380")
    result = grid.run("resnet18", on, 1, "fp32", "eager")
    convolution = result.demand.kernel[result.demand.head & result.demand.is_convolution]
    product = result.demand.kernel[result.demand.head & (result.demand.macs > 0) & ~result.demand.is_convolution]
    assert result.run.overhead_s[convolution].min() > result.run.overhead_s[product].max()


def test_prefill_of_wide_weights_does_not_run_at_the_rate_of_unpacking_kernels() -> None:
    """llama.cpp gives 16-bit weights to cuBLAS, packed ones to its own int8 kernels."""
    wide_s, packed_s = (
        grid.run("llama3_8b:prefill,sequence=1024", "a40", 1, precision, "llama_cpp").latency_s
        for precision in ("fp16", "q4_k_m")
    )
    assert wide_s < 1.2 * packed_s


def test_a_library_without_depthwise_kernels_is_slower_on_depthwise_convolutions() -> None:
    """Its rate is below that of libraries with kernels of their own, on the same arithmetic."""
    on = grid.device("raspberry_pi_4")
    xnnpack, others = (grid.run("mobilenet_v2", on, 1, "fp32", name) for name in ("tflite", "tflite_builtin"))
    slower = runtimes()["tflite_builtin"].compute["cpu"]["DEPTHWISE"].value
    assert xnnpack.demand.macs.sum() == others.demand.macs.sum()
    depthwise = xnnpack.demand.kernel[xnnpack.demand.is_depthwise & xnnpack.demand.head]
    ratio = others.run.kernel_compute_s[depthwise].sum() / xnnpack.run.kernel_compute_s[depthwise].sum()
    assert 1.5 < ratio <= 1 / slower


def test_depthwise_convolutions_of_one_core_are_not_most_of_a_mobilenet(tmp_path: Path) -> None:
    """oneDNN's direct kernels reach a third of the peak: 46 to 62 % of the time of eager MobileNets were theirs."""
    result = grid.run("mobilenet_v2", _cores(tmp_path, 1.0), 1, "fp32", "eager")
    depthwise = result.demand.kernel[result.demand.is_depthwise & result.demand.head]
    assert 0.02 < result.run.kernel_s[depthwise].sum() / result.latency_s < 0.3


def test_frameworks_pool_plain_tensors_one_value_at_a_time(tmp_path: Path) -> None:
    """SqueezeNet has three large pools: eager NCHW took 2.1 times as long as channels last on a core."""
    on = _cores(tmp_path, 1.0)
    plain, last = (
        estimate(grid.workload("squeezenet1_1"), on, Scenario(1, "fp32", "eager", layout)).latency_s
        for layout in ("nchw", "channels_last")
    )
    assert 1.5 * last < plain < 3.0 * last


def test_element_wise_kernels_prepare_no_library_primitive() -> None:
    on = grid.device("xeon_8380")
    assert on.light_start_s < 0.5 * on.kernel_start_s


def test_joining_sixty_threads_leaves_openvino_within_its_published_latency() -> None:
    """ResNet-50 takes 1.29 ms in bf16 on a Xeon 8490H (OpenVINO 2024.1), computing included."""
    result = grid.run("resnet50", grid.device("xeon_8490h"), 1, "bf16", "openvino")
    assert result.run.overhead_s.sum() < 1.29e-3


def test_equal_parts_of_a_loop_wait_for_the_slowest_core() -> None:
    """6 performance and 8 efficiency cores, 0.4 as fast, are 9 to a runtime that shares work out, 5.6 to OpenMP."""
    device = load_device("i7_12700h")
    units = {name: make_setup(device, "fp32", runtimes()[name]).device.units for name in ("openvino", "torch_compile")}
    assert units == {"openvino": 9.0, "torch_compile": pytest.approx(14 * 26.4 / 65.6, rel=0.01)}


def test_rows_of_vgg_on_a_cpu_count() -> None:
    """Rows of VGG are measurements as those of other models are: none is left out of what is fitted on CPUs."""
    rows = [row for row in shipped_rows(FITTED_ON) if row["model"].startswith("vgg") and "i9-10940X" in row["device"]]
    assert len(rows) == 12
    assert all(interpret_row(row, ()).latency_s for row in rows)


@pytest.mark.parametrize("precision", ["int8", "bf16"])
def test_dot_products_of_narrow_formats_hasten_nothing_else(precision: str) -> None:
    """Softmax, GELU and norms of an int8 or bf16 encoder run in fp32: VNNI and AVX512-BF16 only multiply."""
    on = grid.device("xeon_8490h")
    narrow, wide = (grid.run("bert_base:sequence=128", on, 1, form, "openvino") for form in (precision, "fp32_strict"))
    assert narrow.setup.plan.vector == "fp32"
    norms = narrow.demand.kernel[(narrow.demand.op_class == OpClass.ROW_NORM) & narrow.demand.head]
    assert narrow.run.kernel_compute_s[norms].sum() == pytest.approx(wide.run.kernel_compute_s[norms].sum())


def test_lanes_wait_for_the_matrix_unit_of_their_core() -> None:
    """A core has one stream of instructions: what is done to a product's results adds to its time."""
    result = grid.run("bert_base:sequence=128", grid.device("xeon_8490h"), 64, "bf16", "openvino")
    mapping = result.run.mapping
    attends = result.demand.is_attention & mapping.on_matrix
    assert attends.any()
    assert (mapping.matrix_s[0, attends] > mapping.vector_s[0, attends]).all()
    products_s = mapping.matrix_ideal_s / result.device.software.compute["ATTENTION"][0]
    assert (mapping.matrix_s[0] >= mapping.vector_s[0] + products_s * 0.99)[attends].all()


def test_throughput_of_openvino_is_that_of_an_image_for_each_core() -> None:
    """Streams work on an image each; 64 images at once would not stay in the caches of four cores."""
    row = {
        "source": "me", "device": "Intel Core i3-8100", "model": "resnet18", "framework": "OpenVINO 2024.1",
        "batch": "1", "precision": "fp32", "scenario": "throughput", "throughput_per_s": "104.83", "latency_ms": "",
    }  # fmt: skip
    request = interpret_row(row)
    assert (request.scenario.batch, request.is_rate) == (4, True)
    assert predictions.predict_row(request)[0].predicted == pytest.approx(request.latency_s, rel=0.15)


@pytest.mark.parametrize(("precision", "times"), [("fp16", 1.3), ("fp32", 1.3), ("int8", 1.0)])
def test_ncnn_multiplies_less_in_dense_convolutions_of_3_x_3(precision: str, times: float) -> None:
    dense, grouped = (
        [grid.run(model, "rk3588_cpu", 1, precision, name) for name in ("tflite", "ncnn")]
        for model in ("vgg16", "resnext50_32x4d")
    )
    assert dense[0].latency_s > times * dense[1].latency_s
    assert dense[1].run.mapping.is_reduced.any() == (precision != "int8")
    assert not grouped[1].run.mapping.is_reduced.any()


def test_threads_join_as_a_tree() -> None:
    """Twice the cores join in at most one step more of each parallel region, in all of them where work abounds."""
    result = grid.run("vgg16", "xeon_8490h", 64, "fp32", "eager")
    device = result.device
    units = msgspec.structs.replace(device.facts["units"], value=2.0 * device.units)
    wider = msgspec.structs.replace(device, facts={**device.facts, "units": units})
    setups = [msgspec.structs.replace(result.setup, device=each) for each in (device, wider)]
    few, many = (execute(result.demand, setup).overhead_s for setup in setups)
    step_s = device.thread_join_s * result.runtime.launch.value
    regions = 1.0 + device.arch.constants.plain_reorder_regions
    assert (many - few <= regions * step_s * (1 + 1e-9)).all()
    assert (many - few).max() == pytest.approx(regions * step_s, rel=0.1)


@for_each(
    ("model", "name"),
    [(m, d) for m in ("shufflenet_v2_x1_0", "vit_b_16") for d in ("xeon_6980p", "i9_10940x", "raspberry_pi_5")],
)
def test_more_cores_never_slow_a_processor(model: str, name: str) -> None:
    """Software takes as many threads as are best: at a small batch that is fewer than there are cores. The last digits
    are those of the overlap, which is rounded where arithmetic and memory take equally long."""
    workload, most = ready(model), int(load_device(name).units)
    assert workload is not None
    for execution in ("auto", "torch_compile", "pytorch_eager"):
        for precision, batch in (("fp32", 1), ("int8", 1), ("int8", 8)):
            scenario = Scenario(batch, precision, execution)
            cores = [n for n in (1, 2, 3, 5, 8, 14, 24, 37, 64, 128) if n <= most]
            devices = [load_device(f"{name}{{units={n}}}") for n in cores]
            latencies_s = [estimate(workload, device, scenario).latency_s for device in devices]
            for fewer_s, more_s in pairwise(latencies_s):
                assert more_s <= fewer_s * (1 + 1e-5), (execution, precision, batch, latencies_s)
