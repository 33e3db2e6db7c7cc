"""Names as people type them: each opens what is meant, without anything being captured."""

from __future__ import annotations

import pytest

from analysis.run.engine import Engine
from analysis.workload import aliases, store, targets
from analysis.workload.errors import UnknownModelError
from analysis.workload.model_ref import names, own, plain, refer
from hwexplorer import cli
from hwexplorer.state import parse

MODELS = {
    "ResNet-18": "resnet18",
    "MobileNetV2": "mobilenet_v2",
    "meta-llama/Llama-3.1-8B": "llama3_8b",
    "meta-llama/Llama-3.1-8B-Instruct": "llama3_8b",
    "llama3_1_8b:decode": "llama3_8b:decode",
    "yolov8n": "ultralytics:yolov8n()",
    "YOLOv8-N": "ultralytics:yolov8n()",
    "ultralytics/yolov8n": "ultralytics:yolov8n()",
    "timm/convnext_tiny.fb_in1k": "timm:convnext_tiny.fb_in1k()",
    "whisper_large_v3": "transformers:whisper_large_v3()",
    "stable_diffusion": "diffusers:unet_sd15()",
    "Stable Diffusion XL": "diffusers:unet_sdxl()",
    "SDXL": "diffusers:unet_sdxl()",
    "stable-diffusion-vae": "diffusers:vae_sd()",
    "yolo11s": "ultralytics:yolo11s()",
    "T5": "transformers:t5_base()",
    "mamba": "transformers:mamba_130m()",
}
DEVICES = {
    "H100-PCIe": "h100_pcie",
    "GPU-A100": "a100_sxm4_40gb",
    "i7-13700k": "i7_13700k",
    "Jetson Orin": "jetson_agx_orin",
    "jetson orin:15w": "jetson_agx_orin:15w",
    "tpu_v5": "tpu_v5p",
    "coral": "coral_edge_tpu",
    "epyc_genoa": "epyc_9654",
    "jetson_orin_agx_cpu": "jetson_agx_orin_cpu",
    "Ampere One M192": "ampereone_m192",
}


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.mark.parametrize("typed", MODELS)
def test_models(typed: str) -> None:
    assert str(refer(typed)) == MODELS[typed]
    assert (own(typed) is not None) == MODELS[typed].endswith("()")
    state = parse(f"{typed}@b8,FP16/gpu")
    assert (str(refer(state.model)), state.batch, state.precision, state.devices) == (
        MODELS[typed],
        8,
        "fp16",
        ("gpu",),
    )


@pytest.mark.parametrize("typed", DEVICES)
def test_devices(typed: str, engine: Engine) -> None:
    assert engine.device(typed).key == engine.device(DEVICES[typed]).key


def test_what_the_aliases_mean_is_there(engine: Engine) -> None:
    for kind, meant in aliases._table()["models"].items():
        assert meant in names() or targets.parse(meant).is_library, kind  # type: ignore[union-attr]
    for meant in aliases._table()["devices"].values():
        assert engine.device(meant).id == meant


@pytest.mark.parametrize("typed", ["--batch-size", "--Batch_Size", "--batchsize", "--BATCH", "--bs"])
def test_options(typed: str) -> None:
    assert cli.parse(["compare", "resnet18", typed, "4"]).batch == 4
    assert cli.parse(["compare", "resnet18", f"{typed}=4"]).batch == 4


def test_what_is_no_alias_is_left_alone() -> None:
    for text in ("resnet18/h100_sxm", "nets/net.py:make", "net.onnx/gpu", "hf:meta-llama/Llama-3.1-8B", "llama/tpu_v4"):
        assert plain(text) == text


def test_models_of_libraries_that_ship_open_without_the_library() -> None:
    expected = {"yolov8n": (3_157_200, 4.372e9), "t5": (222_903_552, 2.113e10), "mamba": (129_135_360, 2.065e9)}
    for name, (parameters, macs) in expected.items():
        found = store.load(name)
        assert found.parameters == parameters
        assert float((found.operators.macs @ found.at(batch=1)).sum()) == pytest.approx(macs, rel=1e-3)
        assert found.operators.has_rule.all()


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [])
    with pytest.raises(UnknownModelError, match="timm is not installed: pip install timm"):
        targets.source(targets.parse("timm:resnet50"))  # type: ignore[arg-type]
