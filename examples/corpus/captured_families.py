"""The models that bench_captures.py tries: name -> what builds it (a module and its inputs), by family."""

import importlib
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from analysis.capture import library_models
from analysis.model.names import targets
from hardware.base import file_access

Build = Callable[[], tuple[Any, Any]]
PACKAGES = (
    "timm", "transformers", "ultralytics", "diffusers", "segmentation_models_pytorch", "torch_geometric", "onnx",
    "onnxruntime",
)  # fmt: skip
SUITE = "onnx, its node suite"
_UNPACKED = Path("build/onnx")
_PER_MODULE = 1  # of timm's modules; the first names are the small and plain ones
_NAMES: dict[str, Any] = file_access.table(Path(__file__).with_suffix(".toml"))
SIZES: dict[str, list[str]] = _NAMES["onnx"]


class Recurrent(nn.Module):  # type: ignore[misc]
    """Two layers over a sequence of 32, the last state classified."""

    def __init__(self, cell: type[nn.Module], width: int = 256) -> None:
        super().__init__()
        self.cells = cell(width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, 1000)

    def forward(self, x: Any) -> Any:
        return self.head(self.cells(x)[0][:, -1])


def _library(library: str, name: str) -> Build:
    return partial(library_models.build, targets.Target(library, name))


def _named(library: str, names: list[str]) -> dict[str, Build]:
    importlib.import_module(library)
    return {name: _library(library, name) for name in names}


def _timm() -> dict[str, Build]:
    import timm

    names = [name for module in timm.list_modules() for name in timm.list_models(module=module)[:_PER_MODULE]]
    return _named("timm", names)


def _diffusers() -> dict[str, Build]:
    import diffusers

    def image(name: str, **config: Any) -> tuple[Any, Any]:
        module = getattr(diffusers, name)(**config)
        return module, {"sample": torch.zeros(1, module.config.in_channels, 64, 64)}

    def denoiser(name: str, channels: int, size: int, **config: Any) -> tuple[Any, Any]:
        module = getattr(diffusers, name)(**config)
        return module, {"sample": torch.zeros(1, channels, size, size), "timestep": torch.zeros(1)}

    small = {"layers_per_block": 2, "block_out_channels": (64, 128)}
    flat = {"down_block_types": ("DownBlock2D",) * 2, "up_block_types": ("UpBlock2D",) * 2}
    return {
        **_named("diffusers", ["unet_sd15", "unet_sdxl", "vae_sd"]),
        "AutoencoderKL": partial(image, "AutoencoderKL"),
        "VQModel": partial(image, "VQModel"),
        "AutoencoderTiny": partial(image, "AutoencoderTiny"),
        "UNet2DModel": partial(denoiser, "UNet2DModel", 3, 64, sample_size=64, **small, **flat),
        "UNet2DModel-attention": partial(denoiser, "UNet2DModel", 3, 64, sample_size=64),
    }


def _transformers(kinds: list[str], auto: str, inputs: Callable[[Any, Any], dict[str, Any]]) -> dict[str, Build]:
    import transformers

    def build(kind: str) -> tuple[Any, Any]:
        config = transformers.AutoConfig.for_model(kind)
        if not hasattr(config, "depths"):  # which says how many by itself
            cut = [name for name in _NAMES["layers"] if isinstance(getattr(config, name, None), int)]
            more = _NAMES["config"].get(kind, {})
            with suppress(Exception):  # of a configuration that refuses: as its library has it
                config = transformers.AutoConfig.for_model(kind, **dict.fromkeys(cut, 2), **more)
        model = getattr(transformers, auto).from_config(config)
        return model, inputs(config, model)

    return {kind: partial(build, kind) for kind in kinds}


def _tokens(config: Any, model: Any) -> dict[str, Any]:
    return {"input_ids": torch.zeros(1, 64, dtype=torch.int64)}


def _two_texts(config: Any, model: Any) -> dict[str, Any]:
    return _tokens(config, model) | {"decoder_input_ids": torch.zeros(1, 16, dtype=torch.int64)}


def _pixels(config: Any, model: Any) -> dict[str, Any]:
    size = getattr(config, "image_size", 224) or 224
    high, wide = size if isinstance(size, (list, tuple)) else (size, size)
    return {"pixel_values": torch.zeros(1, getattr(config, "num_channels", 3), high, wide)}


def _sound(config: Any, model: Any) -> dict[str, Any]:
    if hasattr(config, "num_mel_bins"):
        return {"input_values": torch.zeros(1, config.max_length, config.num_mel_bins)}
    shape = (1, 1, 16000) if config.model_type == "encodec" else (1, 16000)
    return {"input_values": torch.zeros(shape)}


def _segmentation() -> dict[str, Build]:
    import segmentation_models_pytorch as smp

    def build(name: str) -> tuple[Any, Any]:
        encoder = "tu-vit_base_patch16_224.augreg_in21k" if name == "DPT" else "resnet34"
        size = 224 if name == "DPT" else 256
        return getattr(smp, name)(encoder, encoder_weights=None), torch.zeros(1, 3, size, size)

    return {name: partial(build, name) for name in _NAMES["segmentation"]}


def _graph() -> dict[str, Build]:
    import torch_geometric.nn

    def build(name: str) -> tuple[Any, Any]:
        ring = torch.arange(100)
        edges = torch.stack([ring, (ring + 1) % len(ring)])
        more = {"aggregators": ["mean"], "scalers": ["identity"], "deg": torch.ones(4, dtype=torch.int64)}
        model = getattr(torch_geometric.nn.models, name)(16, 32, 2, **(more if name == "PNA" else {}))
        return model, {"x": torch.rand(len(ring), 16), "edge_index": edges}

    return {name: partial(build, name) for name in _NAMES["graph"]}


class _Cells(nn.Module):  # type: ignore[misc]
    """A cell called step by step, its results joined."""

    def __init__(self, cell: type[nn.Module]) -> None:
        super().__init__()
        self.cell = cell(64, 128)

    def forward(self, x: Any) -> Any:
        state, results = None, []
        for step in x.unbind(1):
            state = self.cell(step, state)
            results.append(state[0] if isinstance(state, tuple) else state)
        return torch.stack(results, 1)


def _recurrent() -> dict[str, Build]:
    whole = {kind.__name__: partial(lambda k: (Recurrent(k), torch.rand(1, 32, 256)), kind)
             for kind in (nn.LSTM, nn.GRU, nn.RNN)}  # fmt: skip
    steps = {kind.__name__: partial(lambda k: (_Cells(k), torch.rand(1, 16, 64)), kind)
             for kind in (nn.LSTMCell, nn.GRUCell, nn.RNNCell)}  # fmt: skip
    return whole | steps


def _node_suite() -> dict[str, Path]:
    """One file for each node of ONNX and each way of using it, written by onnx itself."""
    from onnx.backend.test.case.node import collect_testcases

    folder = Path(tempfile.mkdtemp())
    for case in collect_testcases():
        (folder / f"{case.name}.onnx").write_bytes(case.model.SerializeToString())
    return {path.stem: path for path in sorted(folder.iterdir())}


def _packaged() -> dict[str, Path]:
    """ONNX files that packages ship: those of onnx, and those unpacked in build/onnx, a folder for each package. Of the
    members of an ensemble, alike but for their weights, the first."""
    import onnx

    light = Path(onnx.__file__).parent / "backend/test/data/light"
    paths = {f"onnx/{path.stem}": path for path in sorted(light.glob("*.onnx"))}
    alike = set()
    for path in sorted(_UNPACKED.rglob("*.onnx")):
        package = path.relative_to(_UNPACKED).parts[0]
        kind = (package, path.stem.rstrip("0123456789"), path.stat().st_size)
        if kind not in alike:
            alike.add(kind)
            paths[f"{package}/{path.parent.name}/{path.stem}"] = path
    return paths


ALL: dict[str, Callable[[], dict[str, Build | Path]]] = {
    "onnx, files of packages": _packaged,
    "recurrent": _recurrent,
    "torchvision": partial(_named, "torchvision", _NAMES["torchvision"]),
    "ultralytics": partial(_named, "ultralytics", _NAMES["ultralytics"]),
    "transformers, language": partial(_transformers, _NAMES["language"], "AutoModelForCausalLM", _tokens),
    "transformers, encoders": partial(_transformers, _NAMES["encoders"], "AutoModel", _tokens),
    "transformers, encoder and decoder": partial(_transformers, _NAMES["pairs"], "AutoModel", _two_texts),
    "transformers, images": partial(_transformers, _NAMES["images"], "AutoModel", _pixels),
    "transformers, sound": partial(_transformers, _NAMES["sound"], "AutoModel", _sound),
    "segmentation_models_pytorch": _segmentation,
    "torch_geometric": _graph,
    "diffusers": _diffusers,
    "timm": _timm,
    SUITE: _node_suite,
}
