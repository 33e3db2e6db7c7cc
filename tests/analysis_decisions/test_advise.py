"""Advice: every figure is that of the run with the change; nothing useless is suggested."""

import math
import shlex

import pytest
from decisions import DEFAULTS, device, hwexplorer, run

from analysis.estimate.metrics import select_metrics
from analysis.explore.comparison import NOTICEABLE
from hardware.base.errors import RequestError
from hwexplorer.reports.advise.advise import advise, gain
from hwexplorer.text.next_command import command
from tests.sampling import for_each

AIMS = select_metrics(lambda metric: metric.is_aim)

OTHERS = [device(name) for name in DEFAULTS]


@for_each("on", [*DEFAULTS, "jetson_agx_orin"])
@for_each("aim", AIMS)
def test_suggestions_are_sorted_with_other_devices_last_and_useful(on: str, aim: str) -> None:
    found = advise(run("resnet18", on), OTHERS, aim)
    order = [(s.kind == "device", -gain(s, found.now, aim)) for s in found.suggestions]
    assert order == sorted(order)
    for s in found.suggestions:
        assert s.why
        assert gain(s, found.now, aim) >= NOTICEABLE
    assert found.tried == len(found.no_gain) + len(found.suggestions)


@pytest.mark.parametrize(
    ("model", "on", "batch"),
    [*(("mobilenet_v2", on, 1) for on in DEFAULTS), ("resnet50:train", "v100_pcie_32gb", 1024)],
)
def test_figures_are_those_of_the_run_the_command_names(model: str, on: str, batch: int) -> None:
    found = advise(run(model, on, batch), OTHERS)
    assert found.suggestions
    for s in found.suggestions:
        words = shlex.split(command(s.step))[1:]
        (row,) = hwexplorer(*words, "--format", "json").json()["rows"]
        assert row["energy_j_per_inference"] == s.after.energy_j_per_inference
        assert row["latency_s"] == s.after.latency_s
        assert row["peak_memory_bytes"] == s.after.peak_memory_bytes
        left = s.after.energy_j_per_inference / found.now.energy_j_per_inference
        assert math.isclose(s.saved_energy_fraction, 1.0 - left, abs_tol=1e-12)


def test_a_device_of_higher_edp_is_not_suggested() -> None:
    """A slow chip may take the least energy of all: it is no advice if the product with its time is worse."""
    model = "llama3_8b:decode,kv=2048"
    found = advise(run(model, "h100_sxm"), [device("qcs9075_npu"), device("h100_nvl")])
    assert run(model, "qcs9075_npu").energy_j < run(model, "h100_sxm").energy_j
    assert [s.change for s in found.suggestions if s.kind == "device"] == ["device h100_nvl"]


def test_what_does_not_fit_is_made_to_fit_by_settings_of_training() -> None:
    found = advise(run("llama3_8b:train", "h100_sxm", 4), (), "latency")
    changes = {s.change for s in found.suggestions if s.kind == "training"}
    alone = {"optimizer=adamw8bit", "lora=16"}  # gradients and weights of 8 G in fp32 are left otherwise
    assert not found.now.fits
    assert changes == {*alone, *(f"recompute=blocks,{change}" for change in alone)}
    assert "recompute=blocks" in found.no_gain
    assert all(s.after.fits for s in found.suggestions)
    fits = advise(run("resnet18:train", "h100_sxm", 8), ())
    assert "recompute=blocks" in fits.no_gain  # it takes time and joules, and memory is there


def test_what_the_device_lacks_is_not_suggested() -> None:
    found = advise(run("resnet18", "tpu_v4"), OTHERS)
    assert all(s.change != "precision fp16" for s in found.suggestions)


def test_other_software_is_suggested_where_it_was_measured() -> None:
    """A graph pays on a Jetson where an engine of small kernels waits for the host; an assumed runtime is not
    suggested."""
    found = advise(run("mobilenet_v3_small", "jetson_agx_orin", 1, "fp16"), (), "latency")
    assert [s.change for s in found.suggestions if s.kind == "runtime"] == ["runtime tensorrt"]
    assert "TensorRT without graphs to TensorRT" in next(s for s in found.suggestions if s.kind == "runtime").why
    assert not [s for s in advise(run("resnet18", "tpu_v4"), ()).suggestions if s.kind == "runtime"]


@pytest.mark.parametrize("aim", AIMS)
def test_changes_together_do_more_than_each_of_them(aim: str) -> None:
    for model, on in (("resnet18", "h100_sxm"), ("llama3_2_1b:request,in=64,out=8", "h100_sxm")):
        found = advise(run(model, on, 1, "bf16"), (), aim)
        for s in (each for each in found.suggestions if each.kind == "together"):
            parts = [each for each in found.suggestions if each.change in s.change.split(" + ")]
            assert gain(s, found.now, aim) > max(gain(each, found.now, aim) for each in parts)


def test_an_unknown_aim() -> None:
    with pytest.raises(RequestError, match="unknown aim"):
        advise(run("resnet18", "h100_sxm"), OTHERS, "speed")
