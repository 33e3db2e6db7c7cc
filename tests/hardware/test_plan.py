"""Precision plans: every request resolves on every device, and what deviates from it is marked."""

import pytest

from analysis.estimate.estimate import estimate
from analysis.estimate.figures import describe_deviations
from analysis.estimate.scenario import Scenario
from analysis.model.store import ready
from hardware.base.errors import RequestError
from hardware.device_catalog import load_device, load_devices
from hardware.engines.runtime import format_rule, runtimes
from hardware.event_prices import coefficients
from hardware.plan import Plan, make_plan
from hardware.precision import FORMATS, NAMES, parse, runs_wider
from tests.sampling import for_each

DEVICES = [device.id for device in load_devices()[0]]


def deviates(result: Plan) -> bool:
    """tf32 is a multiplier format: its tensors are fp32 and that is no deviation. Weights of another format than the
    activations are unpacked into that of the products: none either."""
    asked = parse(result.requested)
    if not asked.is_uniform:
        run = [FORMATS[form] for form in (result.convolution[1], result.contraction[1], asked.multiplied)]
        return len({(form.kind, form.bits) for form in run}) > 1
    stored = "fp32" if asked.weights == "tf32" else asked.weights
    return (result.stored, result.convolution[1], result.contraction[1]) != (stored, asked.weights, asked.weights)


@for_each("name", DEVICES)
def test_every_precision_resolves_to_something_the_device_has(name: str) -> None:
    device = load_device(name)
    for precision in NAMES:
        result = make_plan(device, precision)
        for unit, format_ in (result.convolution, result.contraction):
            assert (unit, format_) in device.peaks, f"{precision} runs on {unit}:{format_}, which {name} lacks"
        assert ("vector", result.vector) in device.peaks
        assert result.element_bytes == FORMATS[result.stored].bytes
        assert result.stored != "tf32", "a multiplier format is no storage format"
        assert result.requested == precision


@for_each("name", DEVICES)
def test_marks_say_exactly_when_something_else_runs(name: str) -> None:
    device = load_device(name)
    for precision in NAMES:
        result = make_plan(device, precision)
        assert bool(result.marks) == deviates(result), (precision, result)
        text = " ".join(result.marks)
        assert "\n" not in text
        others = {result.convolution[1], result.contraction[1]} - {parse(precision).weights}
        for format_ in others if result.marks else ():
            assert format_ in text, f"{name} {precision}: the mark does not name {format_}: {text}"


@for_each("name", DEVICES[::3])
def test_a_matrix_unit_is_priced_in_one_format(name: str) -> None:
    """The plan prices all matrix work in one format, so convolutions and products must agree where both use it."""
    device = load_device(name)
    for precision in NAMES:
        result = make_plan(device, precision)
        formats = {f for unit, f in (result.convolution, result.contraction) if unit == "matrix"}
        assert formats <= {result.matrix}, (precision, formats)
        assert (coefficients(device, result).value > 0).all(), precision


def test_pytorch_defaults_on_h100() -> None:
    result = make_plan(load_device("h100_sxm"), "fp32", runtimes()["pytorch_eager"])
    assert result.convolution == ("matrix", "tf32")
    assert result.contraction == ("vector", "fp32")
    assert result.stored == "fp32"
    assert result.marks == (
        "fp32: convolutions run as tf32, matrix products as fp32 (PyTorch's default on Ampere and newer: "
        "convolutions in TF32, matrix products in FP32)",
    )
    assert make_plan(load_device("h100_sxm"), "tf32").marks == ()
    assert make_plan(load_device("h100_sxm"), "tf32").contraction == ("matrix", "tf32")


@for_each(
    ("name", "precision", "stored", "contraction"),
    [
        ("xeon_8490h", "bf16", "bf16", ("matrix", "bf16")),  # AMX
        ("xeon_8490h", "fp16", "fp16", ("vector", "fp16")),  # AVX512-FP16; AMX-FP16 came later
        ("xeon_8490h", "fp8", "bf16", ("matrix", "bf16")),
        ("xeon_8490h", "int4", "int8", ("matrix", "int8")),
        ("h100_sxm", "fp8", "fp8", ("matrix", "fp8")),
        ("h100_sxm", "int4", "int8", ("matrix", "int8")),  # Hopper dropped int4
        ("tpu_v4", "fp32", "fp32", ("matrix", "bf16")),  # XLA's default
        ("tpu_v4", "fp16", "bf16", ("matrix", "bf16")),
        ("tpu_v4", "fp8", "bf16", ("matrix", "bf16")),
        ("kpu_t256", "int4", "int4", ("matrix", "int4")),
        ("i7_12700k", "fp16", "fp16", ("vector", "fp32")),  # F16C widens as it loads
        ("i7_12700k", "bf16", "bf16", ("vector", "fp32")),
        ("b200", "nvfp4", "nvfp4", ("matrix", "fp4")),
        ("h100_sxm", "nvfp4", "bf16", ("matrix", "bf16")),  # Marlin: 4 bits of weights, 16 of activations
        ("rtx_4090", "q4_k_m", "fp16", ("matrix", "int8")),  # llama.cpp rounds activations to 8 bits on the way
        ("kpu_t256", "fp16", "fp16", ("matrix", "fp16")),
    ],
)
def test_known_plans(name: str, precision: str, stored: str, contraction: tuple[str, str]) -> None:
    result = make_plan(load_device(name), precision)
    assert (result.stored, result.contraction) == (stored, contraction)


@pytest.mark.parametrize(("wrong", "near"), [("fp61", "fp16"), ("int88", "int8"), ("bf61", "bf16"), ("FP3", "fp32")])
def test_unknown_precision_names_the_nearest(wrong: str, near: str) -> None:
    with pytest.raises(RequestError) as raised:
        make_plan(load_device("h100_sxm"), wrong)
    message = str(raised.value)
    assert "\n" not in message
    assert near in message
    assert all(precision in message for precision in NAMES[:14])
    assert f"and {len(NAMES) - 14} more" in message


@for_each("name", DEVICES)
def test_the_plan_takes_the_faster_unit(name: str) -> None:
    """A format that both units have runs on the matrix unit; nowhere is that the slower one."""
    device = load_device(name)
    for precision in NAMES:
        stated = device.file.runs.get(precision, {})
        unit, format_ = make_plan(device, precision).contraction
        if "contraction" not in stated and unit == "matrix":
            assert device.peaks[unit, format_] >= device.peaks.get(("vector", format_), 0.0), precision


def test_four_bit_weights_are_stored_in_four_bits_everywhere() -> None:
    """Where a device multiplies nothing so narrow, they are unpacked into what it does multiply."""
    for name in DEVICES:
        result = make_plan(load_device(name), "int4")
        assert (result.weights, result.widths.weights) == ("int4", 0.5), name
        native = result.contraction[1] == "int4"
        assert (result.widths.unpack_weights > 0) == (not native)
        assert native or "weights stay int4 in memory" in result.marks[0]
    assert any(make_plan(load_device(name), "int4").contraction[1] != "int4" for name in DEVICES)


def test_sixteen_bit_floats_take_two_bytes_on_every_cpu() -> None:
    cpus = [device for device in load_devices()[0] if device.arch.is_host]
    assert len(cpus) > 10
    for device in cpus:
        for precision in ("fp16", "bf16"):
            result = make_plan(device, precision)
            assert set(result.widths.by_role) == {2.0}, (device.id, precision)
            assert bool(result.widths.unpack_weights) == (FORMATS[result.contraction[1]].bits > 16)


def test_no_runtime_runs_what_the_table_forbids() -> None:
    """Whatever is asked, the kernels are those of the table: what a row replaces comes back by no other way."""
    for device in load_devices()[0]:
        for name, runtime in runtimes().items():
            if not runtime.formats or device.software_class not in runtime.runs_on:
                continue
            for precision in ("fp32", "tf32", "fp16", "bf16", "fp8", "int8", "int4"):
                result = make_plan(device, precision, runtime)
                for kind, (_, run) in (("convolution", result.convolution), ("contraction", result.contraction)):
                    rule = format_rule(device, runtime.formats, run, kind)
                    assert rule is None or run in rule.runs, (device.id, name, precision, kind, run)
                    assert (_, run) in device.peaks


def test_openvino_rounds_activations_where_only_lanes_multiply() -> None:
    plans = [make_plan(load_device(name), "w4a16", runtimes()["openvino_gpu"]) for name in ("arc_155h", "arc_140v")]
    assert [(each.operand, each.stored) for each in plans] == [("int8", "fp16"), ("fp16", "fp16")]


@pytest.mark.parametrize("name", ["a100_sxm4_40gb", "rtx_3060", "t4", "h100_sxm"])
def test_tensorrt_has_no_int4_convolution(name: str) -> None:
    result = make_plan(load_device(name), "int4", runtimes()["tensorrt"])
    assert (result.convolution, result.contraction) == (("matrix", "int8"), ("matrix", "int8"))
    assert (result.stored, result.weights) == ("int8", "int8")
    assert "TensorRT has int4 for weights" in result.marks[0]
    assert runs_wider("int4", "int8")


@pytest.mark.parametrize(
    ("name", "runtime", "contraction", "stored", "quoted"),
    [
        ("h100_sxm", "tensorrt", ("matrix", "tf32"), "fp32", "TensorRT"),
        ("h100_sxm", "onnxruntime", ("matrix", "tf32"), "fp32", "ONNX Runtime"),
        ("h100_sxm", "pytorch_eager", ("vector", "fp32"), "fp32", "PyTorch"),
        ("t4", "tensorrt", ("vector", "fp32"), "fp32", ""),
        ("xeon_8490h", "openvino", ("matrix", "bf16"), "bf16", "OpenVINO"),
        ("xeon_8490h", "onnxruntime", ("vector", "fp32"), "fp32", ""),
        ("i7_12700k", "openvino", ("vector", "fp32"), "fp32", ""),
    ],
)
def test_default_formats_are_those_of_the_runtime(
    name: str, runtime: str, contraction: tuple[str, str], stored: str, quoted: str
) -> None:
    result = make_plan(load_device(name), "fp32", runtimes()[runtime])
    assert (result.contraction, result.stored) == (contraction, stored)
    assert bool(result.marks) == bool(quoted)
    assert quoted in "".join(result.marks)
    strict = make_plan(load_device(name), "fp32_strict", runtimes()[runtime])
    assert (strict.contraction[1], strict.convolution[1], strict.stored, strict.marks) == ("fp32", "fp32", "fp32", ())


def test_tensorrt_multiplies_attention_in_16_bits_and_its_plugins_for_bert_in_8() -> None:
    device = load_device("t4")
    engine, plugins = (make_plan(device, "int8", runtimes()[name]) for name in ("tensorrt", "tensorrt_plugins"))
    assert engine.contraction == plugins.contraction == ("matrix", "int8")
    assert (engine.attention, plugins.attention) == ("fp16", "int8")


def test_an_int8_engine_keeps_what_lies_between_products_of_a_transformer_in_16_bits() -> None:
    """FasterTransformer on a T4: int8 makes Swin-S at batch 32 1.6x as fast as fp16, not 2.2x as 8 bits throughout."""

    def moved_bytes(model: str, runtime: str, precision: str) -> float:
        workload = ready(model, None)
        assert workload is not None
        result = estimate(workload.bound(), load_device("t4"), Scenario(32, precision, runtime))
        flow = result.run.mapping.traffic
        return float((flow.chip_read + flow.chip_write).sum())

    for model, least, most in (("resnet18", 0.49, 0.51), ("swin_t", 0.7, 0.95)):
        part = moved_bytes(model, "tensorrt", "int8") / moved_bytes(model, "tensorrt", "fp16")
        assert least < part < most, (model, part)
    plain, plugins = (moved_bytes("bert_base", name, "int8") for name in ("tensorrt", "tensorrt_plugins"))
    assert plain > 1.2 * plugins


def test_an_int8_transformer_says_what_stays_in_16_bits() -> None:
    def phrases(model: str, runtime: str) -> str:
        workload = ready(model, None)
        assert workload is not None
        return "; ".join(
            describe_deviations(estimate(workload.bound(), load_device("t4"), Scenario(8, "int8", runtime)))
        )

    assert "int8 is for products: residuals" in phrases("vit_b_16", "tensorrt")
    assert "is for products" not in phrases("resnet18", "tensorrt") + phrases("bert_base", "tensorrt_plugins")


@for_each("name", [name for name in DEVICES if load_device(name).arch.is_host])
def test_fewer_bits_never_move_more_bytes_on_a_processor(name: str) -> None:
    """A format without a unit is stored as narrow as the processor widens on loading, not as the one it multiplies."""
    device = load_device(name)
    for runtime in (None, *(each for each in runtimes().values() if each.fits(device, "vision"))):
        wide = make_plan(device, "fp16", runtime).widths
        for asked in ("fp8", "int16", "mxfp4", "nvfp4", "w8a16"):
            widths = make_plan(device, asked, runtime).widths
            assert widths.weights <= wide.weights, (asked, runtime)
            assert widths.activations <= wide.activations, (asked, runtime)
