"""Names as people type them: each opens what is meant, without anything being captured."""

import pytest

from analysis.model import store
from analysis.model.model_errors import UnknownModelError
from analysis.model.names import targets, zoo
from analysis.model.names.model_ref import names, plain, refer, user_target
from hardware.base import file_access
from hardware.base.errors import RequestError
from hwexplorer import cli, engine
from hwexplorer.state import parse
from tests.sampling import for_each

MODELS = {
    "ResNet-18": "resnet18",
    "MobileNetV2": "mobilenet_v2",
    "meta-llama/Llama-3.1-8B": "llama3_8b",
    "meta-llama/Llama-3.1-8B-Instruct": "llama3_8b",
    "llama3_1_8b:decode": "llama3_8b:decode",
    "yolov8n": "ultralytics:yolov8n()",
    "YOLOv8-N": "ultralytics:yolov8n()",
    "ultralytics/yolov8n": "ultralytics:yolov8n()",
    "Ultralytics/YOLOv8n": "ultralytics:yolov8n()",
    "ultralytics:YOLO-v8n": "ultralytics:yolov8n()",
    "meta-llama/Llama-3.1-8B:decode": "llama3_8b:decode",
    "Qwen/Qwen2.5-7B-Instruct: Decode,kv=4096": "qwen2_7b:decode,kv=4096",
    "Llama 3.1 8B:request,in=100,out=20": "llama3_8b:request,in=100,out=20",
    "stabilityai/stable-diffusion-xl-base-1.0": "diffusers:unet_sdxl()",
    "DLRM": "mlperf:dlrm_dcnv2()",
    "3D-UNet": "mlperf:unet3d_kits19()",
    "timm/levit_128.fb_dist_in1k": "timm:levit_128.fb_dist_in1k()",
    "llama3:8b": "llama3_8b",
    "llama3.2:3b-instruct-q4_K_M:decode,kv=4096": "llama3_2_3b:decode,kv=4096",
    "deepseek-r1:7b": "qwen2_7b",
    "mistral:latest": "mistral_7b",
    "TheBloke/Llama-2-7B-GGUF": "llama2_7b",
    "ViT-B/16": "vit_b_16",
    "google/vit-base-patch16-224": "vit_b_16",
    "resnet101.tv_in1k": "resnet101",
    "tf_efficientnetv2_s.in21k_ft_in1k": "efficientnet_v2_s",
    "torchvision.models.resnet50": "resnet50",
    "mobilenet_v2_1.0_224": "mobilenet_v2",
    "ResNet50 v1.5": "resnet50",
    "mlperf bert-99": "bert_large",
    "whisper_large_v3": "transformers:whisper_large_v3()",
    "stable_diffusion": "diffusers:unet_sd15()",
    "Stable Diffusion XL": "diffusers:unet_sdxl()",
    "SDXL": "diffusers:unet_sdxl()",
    "stable-diffusion-vae": "diffusers:vae_sd()",
    "yolo11s": "ultralytics:yolo11s()",
    "T5": "transformers:t5_base()",
    "mamba": "transformers:mamba_130m()",
    "deepseek-v3:671b": "deepseek_v3",
    "qwen3:30b": "qwen3_30b_a3b",
    "qwen3:1.7b:decode,kv=64": "qwen3_1_7b:decode,kv=64",
    "moonshotai/Kimi-K2-Instruct-0905": "kimi_k2",
    "google/vit-huge-patch14-224-in21k": "vit_h_14",
    "yolov8n.pt": "ultralytics:yolov8n()",
    "Megvii-BaseDetection/YOLOX": "megvii:yolox_s()",
    "WongKinYiu/yolov7": "wongkinyiu:yolov7()",
    "torchvision/resnet50": "resnet50",
    "sentence-transformers/all-MiniLM-L6-v2": "minilm_l6",
    "zai-org/GLM-4.5-Air-FP8": "glm4_5_air",
}
STORED = {
    "Qwen3-235B-A22B-Instruct-2507-FP8": ("qwen3_235b_a22b", "fp8"),
    "Qwen/Qwen3-30B-A3B-FP8@b8/h100_sxm": ("qwen3_30b_a3b", "fp8"),
    "Qwen3-235B-A22B-Instruct-2507-FP8@bf16": ("qwen3_235b_a22b", "bf16"),
    "Qwen3-Coder-30B-A3B": ("qwen3_30b_a3b", "bf16"),
    "DeepSeek-V3.1": ("deepseek_v3", "fp8kv16"),
    "DeepSeek-R1-0528": ("deepseek_v3", "fp8kv16"),
    "gpt-oss-120b": ("gpt_oss_120b", "mxfp4"),
    "google/gemma-3-27b-it": ("gemma3_27b", "bf16"),
    "Llama-3.1-8B-Instruct-AWQ": ("llama3_8b", "w4a16"),
    "llama3.1:8b-instruct-q4_K_M": ("llama3_8b", "q4_k_m"),
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
    "NVIDIA H100": "h100_sxm",
    "NVIDIA A100": "a100_sxm4_40gb",
    "NVIDIA A100 80GB PCIe": "a100_pcie_80gb",
    "Tesla-A100-SXM4-80GB": "a100_sxm4_80gb",
    "H100 80GB": "h100_sxm",
    "NVIDIA RTX 2060 Max-Q": "rtx_2060_max_q",
    "Jetson": "jetson_agx_orin",
    "Edge-Jetson:30w": "jetson_agx_orin:30w",
    "Orin": "jetson_agx_orin",
    "ARM Cortex-A78AE": "jetson_agx_orin_cpu",
    "AMD EPYC Turin": "epyc_9965",
    "epyc_turin": "epyc_9965",
    "xeon_emerald_rapids": "xeon_8592_plus",
    "Intel(R) Core(TM) i7-13700K": "i7_13700k",
    "intel_i7_13700k": "i7_13700k",
    "Tesla P100-PCIE-16GB": "p100_pcie_16gb",
    "NVIDIA P100": "p100_sxm2_16gb",
    "AMD MI355X": "mi355x",
    "NVIDIA GB200": "gb200",
    "AMD EPYC 9755 128-Core Processor": "epyc_9755",
    "01:00.0 VGA compatible controller: NVIDIA Corporation AD102 [GeForce RTX 4090] (rev a1)": "rtx_4090",
    "11th Gen Intel(R) Core(TM) i7-1185G7 @ 3.00GHz": "i7_1185g7",
    "c7g.4xlarge": "graviton3",
    "p4d.24xlarge": "a100_sxm4_40gb",
    "NVIDIA GeForce RTX 2080 Ti": "rtx_2080_ti",
    "QCS6490 NPU": "qcs6490_npu",
}
UNKNOWN_DEVICES = {
    "NVIDIA GeForce RTX 4070 SUPER D": "did you mean .*rtx_4070",
    "Apple M5 Max": "did you mean apple_m._max_gpu",
    "Snapdragon 8 Gen 2": "did you mean snapdragon_8_gen_3_npu",
    "Groq LPU on a card": "no shipped device is like it .*h100_sxm{units=80,memory_bandwidth=1e12} states one",
}


@for_each("typed", MODELS)
def test_models(typed: str) -> None:
    assert str(refer(typed)) == MODELS[typed]
    assert (user_target(typed) is not None) == MODELS[typed].endswith("()")
    state = parse(f"{typed}@b8,FP16/gpu")
    assert (str(refer(state.model)), state.batch, state.precision, state.devices) == (
        MODELS[typed],
        8,
        "fp16",
        ("gpu",),
    )


@pytest.mark.parametrize("typed", STORED)
def test_a_name_says_what_a_language_model_is_stored_in(typed: str) -> None:
    assert ((state := parse(typed)).model, state.precision) == STORED[typed]


@for_each("typed", DEVICES)
def test_devices(typed: str) -> None:
    assert engine.device(typed).key == engine.device(DEVICES[typed]).key


@pytest.mark.parametrize("typed", UNKNOWN_DEVICES)
def test_an_unknown_device_names_products_with_similar_words(typed: str) -> None:
    with pytest.raises(RequestError, match=UNKNOWN_DEVICES[typed]):
        engine.device(typed)


def test_what_the_aliases_mean_is_there() -> None:
    for kind, meant in file_access.shipped(zoo._ALIASES)["models"].items():
        assert meant in names() or targets.parse(meant).is_library, kind  # type: ignore[union-attr]


@pytest.mark.parametrize("typed", ["--batch-size", "--Batch_Size", "--batchsize", "--BATCH", "--bs"])
def test_options(typed: str) -> None:
    assert cli.parse(["compare", "resnet18", typed, "4"]).batch == 4
    assert cli.parse(["compare", "resnet18", f"{typed}=4"]).batch == 4


@pytest.mark.parametrize("is_installed", [True, False])
def test_a_model_of_a_library_that_is_not_installed_is_the_one_that_ships(
    is_installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zoo, "find_spec", lambda name: is_installed or None)
    assert plain("timm/resnet50.a1_in1k") == ("timm:resnet50.a1_in1k" if is_installed else "resnet50")
    assert plain("timm/levit_128") == "timm:levit_128"


def test_an_unknown_model_of_the_hub_says_how_its_configuration_opens() -> None:
    with pytest.raises(UnknownModelError, match=r"did you mean phi4_mini.*opens as hf:FOLDER"):
        refer("microsoft/Phi-4-mini-flash-instruct")


def test_what_is_no_alias_is_left_alone() -> None:
    for text in ("resnet18/h100_sxm", "nets/net.py:make", "net.onnx/gpu", "hf:acme/none-9B", "llama/tpu_v4"):
        assert plain(text) == text


# Multiply-accumulates and parameters as others state them: the model tables of ultralytics (FLOPs / 2), model cards,
# the sizes of layers in MLPerf's descriptions added up by hand, and the 97.31 GiB of DLRM-DCNv2's published weights.
_U = [(32, 64, 32), (64, 128, 16), (128, 256, 8), (256, 320, 4), (320, 320, 2)]  # channels above and below, size / 2
_TOP = 1024 * 1024 + 1024 * 512 + 512 * 256 + 256
_BOTTOM = 13 * 512 + 512 * 256 + 256 * 128
_CROSSED = 27 * 128
PUBLISHED = {
    "yolov5n": (3.85e9, 2.6e6),
    "yolov8n": (4.35e9, 3.2e6),
    "yolov10 nano": (3.35e9, 2.3e6),
    "YOLOv10s": (10.8e9, 7.2e6),
    "yolov10_m": (29.55e9, 15.4e6),
    "yolov9t": (None, 2.1e6),
    "yolov9s": (None, 7.2e6),
    "yolov9m": (None, 20.1e6),
    "yolo11s": (10.75e9, 9.4e6),
    "yolov8s": (14.3e9, 11.2e6),
    "yolov8m": (39.45e9, 25.9e6),
    "yolo11n": (3.25e9, 2.6e6),
    "YOLOX-Nano": (None, 0.91e6),
    "YOLOX-Tiny": (3.225e9, 5.06e6),
    "YOLOX-s": (13.4e9, 9.0e6),
    "yoloxm": (36.9e9, 25.3e6),
    "YOLOX-L": (77.8e9, 54.2e6),
    "YOLOX-X": (140.95e9, 99.1e6),
    "yolov7-tiny": (6.9e9, 6.2e6),
    "YOLOv7": (52.35e9, 36.9e6),
    "YOLOv7-X": (94.95e9, 71.3e6),
    "stable diffusion": (None, 860e6),
    "sdxl": (None, 2.57e9),
    "whisper": (None, 1.54e9),
    "t5": (None, 223e6),
    "mamba": (None, 129e6),
    "DLRM": (_BOTTOM + 3 * 2 * _CROSSED * 512 + _CROSSED * 1024 + _TOP, 97.31 * 2**30 / 4),
    "dlrm-v1": (_BOTTOM + 27 * 27 * 128 + (128 + 27 * 26 // 2) * 1024 + _TOP, None),
    "3D-UNet": (
        128**3 * (27 * (32 + 32 * 32) + 32 * 3)
        + sum((4 * n) ** 3 * 27 * 3 * a * a + (2 * n) ** 3 * (27 * b * (a + b) + 8 * a * b) for a, b, n in _U),
        None,
    ),
}


@for_each("name", PUBLISHED)
def test_families_that_ship_open_as_published(name: str) -> None:
    found = store.load(name)
    macs, parameters = PUBLISHED[name]
    counted = float((found.operators.macs @ found.value_at(batch=1)).sum())
    assert macs is None or counted == pytest.approx(macs, rel=0.01)
    assert parameters is None or found.parameters == pytest.approx(parameters, rel=0.03)  # as rounded there
    assert found.operators.has_rule.all()


@for_each("name", [f"{library}:{name}" for library, models in zoo.libraries().items() for name in models])
def test_what_is_listed_is_what_ships(name: str) -> None:
    found, listed = store.ready(name), zoo.libraries()[name.partition(":")[0]][name.partition(":")[2]]
    assert found is not None
    assert found.parameters == listed["parameters"]
    assert float((found.operators.macs @ found.value_at(batch=1)).sum()) == pytest.approx(listed["macs"], rel=1e-9)


def test_another_size_of_a_capture_is_refused_with_the_sizes_that_ship() -> None:
    assert refer("yolox_tiny", 320) == refer("yoloxt", 320)
    with pytest.raises(UnknownModelError, match="416 x 416 pixels, or 320 x 320 or 640 x 640"):
        store.load(refer("yolox_tiny", 480))
    with pytest.raises(UnknownModelError, match="of wongkinyiu only the captures that ship open: did you mean yolov7"):
        store.load(refer("wongkinyiu:yolov7z"))


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [])
    with pytest.raises(UnknownModelError, match=r"timm is not installed: pip install timm"):
        targets.source(targets.parse("timm:resnet50"))  # type: ignore[arg-type]
