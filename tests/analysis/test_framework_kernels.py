"""Kernels of PyTorch without tuning, and with 4-bit weights of bitsandbytes."""

import grid
import numpy as np
import pytest

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from analysis.measured.tables import SHIPPED, read_rows
from hardware.demand import OpClass
from lab.timed_kernels import predict_kernels


def _run(
    model: str, precision: str, layout: str = "channels_last", runtime: str = "eager_graph", on: str = "h100_sxm"
) -> Estimate:
    scenario = Scenario(batch=64, precision=precision, execution=runtime, layout=layout)
    return estimate(grid.run(model, "h100_sxm").workload, grid.device(on), scenario)


def test_a_first_layer_reaches_what_was_measured() -> None:
    """33 TFLOP/s for 3 channels and windows of 7 x 7 in bf16, batch 64, on an H100; it is tuned elsewhere."""
    result = _run("resnet18", "bf16")
    first = result.run.busy_s[0]
    assert 20e12 < 2.0 * result.demand.macs[0] / first < 45e12
    assert first > 3.0 * _run("resnet18", "bf16", runtime="pytorch_eager").run.busy_s[0]


@pytest.mark.parametrize(
    ("precision", "points", "runtime", "on"),
    [
        ("bf16", 3.0, "eager_graph", "h100_sxm"),
        ("fp32", 1.0, "eager_graph", "h100_sxm"),
        ("bf16", 3.0, "pytorch_eager", "rtx_5090"),
    ],
)
def test_images_are_rearranged_for_matrix_units(precision: str, points: float, runtime: str, on: str) -> None:
    """Each tensor is read and written once more, but not those of 1 x 1 convolutions in TF32."""
    last, first = (_run("resnet50", precision, layout, runtime, on) for layout in ("channels_last", "nchw"))
    written, before = (result.run.mapping.traffic.chip_write for result in (first, last))
    ratio = np.divide(written, before, out=np.ones_like(written), where=before > 0.0)
    window = last.demand.windows[2:4].prod(axis=0)
    is_convolution = last.demand.is_convolution
    assert ratio[is_convolution & (window > 1.0)] == pytest.approx(3.0)
    assert ratio[is_convolution & (window == 1.0)] == pytest.approx(points)
    assert ratio[~is_convolution] == pytest.approx(1.0)


def test_parameters_of_a_batch_norm_in_16_bits_are_widened() -> None:
    """Two kernels more, and time for addresses; relu and sums in 16 bits have neither."""
    wide, narrow = (_run("resnet18", precision) for precision in ("fp32", "bf16"))
    classes, start_s = wide.demand.op_class[wide.demand.head], wide.device.light_start_s
    more_s = (narrow.run.unthrottled_s - narrow.run.busy_s) - (wide.run.unthrottled_s - wide.run.busy_s)
    assert (more_s[classes == OpClass.NORM] >= 2.0 * start_s * (1 - 1e-9)).all()
    assert more_s[classes == OpClass.ELEMENTWISE] == pytest.approx(0.0, abs=1e-12)


def test_plain_kernels_take_the_time_of_their_elements() -> None:
    """430 to 570 G elements of windows a second in a max pool, 240 to 400 G in a batch norm of 16 bits; a layer norm of
    96 values takes 150 to 200 ns for each row and multiprocessor (H100, PyTorch 2.11)."""
    result = _run("resnet18", "bf16")
    classes = result.demand.op_class[result.demand.head]
    for op_class, work, low, high in (
        (OpClass.POOL, result.demand.vector_flops, 400e9, 600e9),
        (OpClass.NORM, result.demand.elements, 200e9, 420e9),
    ):
        kernel = int(np.flatnonzero(classes == op_class)[0])
        seconds = float(result.run.unthrottled_s[kernel])
        assert low < work[result.demand.head][kernel] / seconds < high
    norms = _run("swin_t", "bf16")
    kernel = int(np.flatnonzero(norms.demand.op_class[norms.demand.head] == OpClass.ROW_NORM)[0])
    rows = float(norms.demand.special[norms.demand.head][kernel])
    assert 120e-9 < norms.run.unthrottled_s[kernel] / rows * norms.device.units < 220e-9


def test_copies_to_another_order_compute_addresses() -> None:
    """Swin T, H100, PyTorch 2.11: 60 to 310 G elements a second; matrices of one shape are added at 0.9 of memory."""
    result = _run("swin_t", "bf16")
    classes, elements = (values[result.demand.head] for values in (result.demand.op_class, result.demand.elements))
    rate = elements / result.run.busy_s
    large = elements > 1e7
    assert (rate[large & (classes == OpClass.MOVEMENT)] < 400e9).all()
    assert rate[large & (classes == OpClass.ELEMENTWISE)].max() > 450e9


def test_groups_of_channels_leave_matrix_units_idle() -> None:
    """4 to 28 T multiply-adds a second in RegNets, H100, PyTorch 2.11."""
    result = _run("regnet_y_8gf", "bf16")
    is_grouped = (result.demand.op_class == OpClass.CONV) & (result.demand.gemm[0] > 1.0)
    rate = result.demand.macs[is_grouped].sum() / result.run.latency_s[is_grouped].sum()
    assert 4e12 < rate < 28e12


def test_compiled_groups_of_24_channels_take_a_tile_of_128() -> None:
    """RegNetX 1.6GF has groups of 24 channels, RegNetX 800MF of 16, which have kernels of their own (RTX 4090)."""
    for model, filled in (("regnet_x_1_6gf", 0.25), ("regnet_x_800mf", 1.0)):
        result = _run(model, "bf16", runtime="torch_compile", on="rtx_4090")
        grouped = result.demand.is_convolution & (result.demand.gemm[0] > 1.0)
        slower = result.run.mapping.matrix_s[0, grouped] / result.run.mapping.tiling.seconds[grouped]
        assert slower == pytest.approx(1.0 / filled / 0.92, rel=0.01)


def test_the_host_dispatches_a_convolution_with_its_bias_once() -> None:
    result = _run("vgg16", "fp32", runtime="pytorch_untuned")
    kinds = result.workload.operators.kind
    assert kinds.count("bias") > 13
    assert [kind != "bias" for kind in kinds] == result.demand.calls.dispatched.tolist()


def test_four_bits_of_bitsandbytes_save_energy_in_large_models_alone() -> None:
    """An RTX 5090 took 26 % more energy for TinyLlama in NF4, 11 % less for a 7B (vllm-project/vllm 36440)."""

    def saved(model: str) -> float:
        """Return the energy in 4 bits over that in 16 bits."""
        four = grid.run(model, "rtx_5090", 1, "w4a16", "bitsandbytes").energy_j
        return four / grid.run(model, "rtx_5090", 1, "fp16", "transformers").energy_j

    assert 1.1 < saved("tinyllama_1_1b:decode") < 1.4
    assert 0.6 < saved("llama2_7b:decode") < 0.95


def test_every_kernel_of_the_project_is_predicted() -> None:
    """128 operators of PyTorch on an H100, most of them chosen for what no model here asks for. A copy that reads a
    sector for each value takes 2.5 times as long as one of rows."""
    points, skipped = predict_kernels(read_rows([SHIPPED / "own_kernels.csv.gz"], ("op",)))
    assert (len(points), skipped.total()) == (128, 0)
    errors = {point: abs(point.predicted / point.measured - 1.0) for point in points}
    assert np.median([*errors.values()]) < 0.15
    assert max(error for point, error in errors.items() if point.family.startswith(("transpose", "layout"))) < 0.4


def test_each_kernel_that_python_runs_is_started() -> None:
    """Qwen3 0.6B decodes with 1,700 kernels on an H100 in 4.8 ms, of which its graph has no host to wait for."""
    result = grid.run("qwen3_0_6b:decode", "h100_sxm", 1, "bf16", "transformers_graph")
    assert result.demand.starts.parts.sum() > 1500
    assert 3e-3 < result.latency_s < 6e-3
