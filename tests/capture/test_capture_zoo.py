"""The shipped captures against torchvision's published figures, and fresh captures against the shipped."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from analysis.model import store
from analysis.model.ir.workload import KINDS, WEIGHT, Workload, decode, encode
from analysis.model.model_errors import ModelSpecError, UnknownModelError
from analysis.model.names import zoo
from lab.captures import crop_sizes
from tests.sampling import for_each
from tests.waiting import CallCount

_NO_PROPOSALS = "published without any proposal, so without its box head; ours has torchvision's proposals"
# Weights whose published multiply-accumulates are not ours -> why. Everything else agrees.
MACS_DIFFER = {
    "fasterrcnn_mobilenet_v3_large_fpn-COCO_V1": _NO_PROPOSALS,
    "fasterrcnn_mobilenet_v3_large_320_fpn-COCO_V1": _NO_PROPOSALS,
    "maskrcnn_resnet50_fpn-COCO_V1": "published without its mask head; ours has 100 masks, as v2 is published",
    "keypointrcnn_resnet50_fpn-COCO_LEGACY": "published with no detection, the default weights with one",
}

PUBLISHED = [
    pytest.param(info, weights, id=f"{info.name}-{weights.name}") for info in zoo.models() for weights in info.weights
]


def total_macs(workload: Workload, batch: int = 1) -> float:
    return float((workload.operators.macs @ workload.value_at(batch=batch)).sum())


@for_each(("info", "weights"), PUBLISHED)
def test_published_figures(info: zoo.ModelInfo, weights: zoo.Weights) -> None:
    workload = store.ready(info.name, weights.crop_size)
    assert workload is not None, "not shipped"
    assert workload.parameters == weights.parameters
    assert workload.image_size == (weights.crop_size or info.image_size)
    assert workload.family == info.family
    published = weights.gmacs * 1e9  # rounded to 1 MMAC in the table
    close = abs(total_macs(workload) - published) <= max(0.005 * published, 0.5e6)
    assert close != (f"{info.name}-{weights.name}" in MACS_DIFFER)


@pytest.mark.parametrize(("name", "count"), [("resnet18", 68), ("mobilenet_v2", 151)])
def test_costed_operators(name: str, count: int) -> None:
    kinds = store.load(name).operators.kind
    assert sum(kind != "bias" for kind in kinds) == count


def test_all_of_torchvision_is_there() -> None:
    assert len(zoo.models()) == 121
    assert len(zoo.models("classification")) == 80


def shipped() -> list[tuple[str, int | None]]:
    models = [(info.name, size) for info in zoo.models() for size in crop_sizes(info)]
    return [*((name, None) for name in zoo.BLOCKS), *models]


def test_every_shipped_workload_is_sound() -> None:
    for name, size in shipped():
        check(store.load(name, size))


def check(w: Workload) -> None:
    """What every consumer relies on."""
    operators, tensors = w.operators, w.tensors
    n, t, e = w.n_operators, len(tensors.name), len(operators.in_tensor)
    assert len(set(operators.path)) == n, w.name
    assert set(operators.kind) <= set(KINDS)
    assert operators.has_rule.all(), (w.name, set(operators.kind))
    assert operators.in_ptr[0] == 0
    assert operators.in_ptr[-1] == e
    assert operators.in_numel.shape == (e, len(w.monomials))
    assert (operators.in_tensor < t).all()
    for batch in (1, 2, 3, 7, 4096):
        at = w.value_at(batch=batch)
        macs, flops, special = operators.macs @ at, operators.flops @ at, operators.special @ at
        gemm = operators.gemm @ at
        assert (macs >= 0).all()
        assert (flops >= 2 * macs).all()
        assert (special <= flops).all()
        contraction = macs > 0
        product = gemm.prod(axis=1)
        two_products = np.array([kind in ("attention", "recurrent") for kind in operators.kind])
        assert (product == macs)[contraction & ~two_products].all(), w.name
        for values in (macs, flops, operators.in_numel @ at, tensors.numel @ at):
            assert (values == np.round(values)).all()
        assert (tensors.numel @ at > 0).all()
        # An operator reads no more of a tensor than its memory holds.
        held = (tensors.numel @ at)[tensors.storage]
        within = operators.in_numel @ at <= held[operators.in_tensor]
        picks = np.array([kind in ("gather", "embedding") for kind in operators.kind])
        assert (within | np.repeat(picks, np.diff(operators.in_ptr))).all(), w.name
    made = tensors.producer >= 0
    assert (tensors.live_until[made] >= tensors.producer[made]).all()
    assert (tensors.live_until < max(n, 1)).all()
    assert (tensors.storage[tensors.storage] == tensors.storage).all()
    # Values are read after they are made, and kept while they are read.
    reader = np.repeat(np.arange(n), np.diff(operators.in_ptr))
    assert (tensors.producer[operators.in_tensor] < reader).all(), w.name
    assert (tensors.live_until[operators.in_tensor] >= reader).all()
    assert tensors.is_output.any()
    weights = tensors.role == WEIGHT
    assert int((tensors.numel[weights] @ w.value_at(batch=1)).sum()) == w.parameters


def test_sizes_are_affine_in_the_batch() -> None:
    for info in zoo.models():
        w = store.load(info.name)
        assert w.dims == ("batch",)
        assert w.monomials == ((0,), (1,)), info.name


def test_decoding_anything_else_fails_cleanly() -> None:
    data = encode(store.load("conv2d"))
    for damaged in (b"", b"nothing", data[:-9], data.replace(b"<f8", b"|O8"), data.replace(b"workload/", b"whatever/")):
        with pytest.raises((ValueError, EOFError)):
            decode(damaged)


def keep(seen: dict[str, int], path: str, result: torch.Tensor) -> None:
    seen.setdefault(path, result.numel())


@pytest.mark.parametrize("name", ["alexnet", "mobilenet_v3_small", "squeezenet1_1", "vit_b_32"])
def test_real_shapes_at_several_batches(name: str) -> None:
    """The polynomials against what the model really returns, module by module, on the meta device."""
    from analysis.capture.torch_settings import without_weights
    from analysis.capture.torchvision_models import _torchvision

    info, workload = zoo.table()[name], store.load(name)
    with without_weights():
        module = _torchvision(info, info.image_size).eval().to("meta")
    index = {path: row for row, path in enumerate(workload.operators.path)}
    compared = 0
    for batch in (1, 2, 3, 7):
        seen: dict[str, int] = {}

        def note(path: str, seen: dict[str, int] = seen) -> Callable[..., None]:
            return lambda _module, _args, result: keep(seen, path, result)

        hooks = [part.register_forward_hook(note(path)) for path, part in module.named_modules() if path in index]
        with torch.no_grad():
            module(torch.empty(batch, 3, info.image_size, info.image_size, device="meta"))
        for handle in hooks:
            handle.remove()
        for path, numel in seen.items():
            out = workload.operators.out_tensor[workload.operators.out_ptr[index[path]]]
            assert workload.tensors.numel[out] @ workload.value_at(batch=batch) == numel, (path, batch)
            compared += 1
    assert compared >= 4 * 15


def test_blocks_and_their_parameters() -> None:
    for name in zoo.BLOCKS:
        assert store.load(name).family == "block"
    assert store.load("gemm:8192x8192x8192").name == "gemm:M=8192,N=8192,K=8192"
    w = store.load("gemm:M=16,K=4")
    assert tuple(w.operators.gemm[0] @ w.value_at(batch=3)) == (1, 48, 1024, 4)
    assert store.load("conv2d").operators.path == ("conv", "bn", "relu")


def test_quantised_models_are_their_float_architecture() -> None:
    quantised, plain = store.load("quantized_resnet18"), store.load("resnet18")
    assert quantised.name == "quantized_resnet18"
    assert quantised.family == "quantized"
    assert plain.name == "resnet18"
    assert quantised.operators.path == plain.operators.path


@for_each(
    ("spec", "size", "words"),
    [
        ("resnt18", None, ["resnt18", "resnet18"]),
        ("", None, ["hwexplorer models"]),
        ("zzzzqqqq" * 30, None, ["..."]),
        ("../../etc/passwd", None, ["unknown model"]),
        ("gemm:1x2", None, ["M, N, K"]),
        ("gemm:Q=3", None, ["'Q'", "M, N, K"]),
        ("gemm:M=0", None, ["whole number"]),
        ("gemm:M=-4", None, ["whole number"]),
        ("gemm:M=²", None, ["whole number"]),
        ("gemm", 64, ["no image size"]),
        ("llama3_8b", 224, ["no image size"]),
        ("resnet18:64", None, ["nothing but train"]),
        ("inception_v3", 32, ["too small", "75"]),
        ("alexnet", 62, ["too small", "63"]),
        ("vit_b_16", 225, ["multiple of 16", "224"]),
        ("raft_small", 500, ["multiple of 8"]),
        ("ssd300_vgg16", 200, ["too small", "300"]),
        ("resnet18", 0, ["allowed: 1 to 8192"]),
        ("resnet18", -1, ["allowed: 1 to 8192"]),
        ("resnet18", 10**9, ["allowed: 1 to 8192"]),
    ],
)
def test_wrong_requests_say_so_in_one_line(spec: str, size: int | None, words: list[str]) -> None:
    with pytest.raises((UnknownModelError, ModelSpecError)) as caught:
        store.load(spec, size)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 200
    assert all(word in message for word in words)
    assert isinstance(caught.value, (LookupError, ValueError))


def test_names_are_forgiving_about_case_and_dashes() -> None:
    assert store.load(" ResNet-18 ".replace("-18", "18")).name == "resnet18"
    assert store.load("Conv2D").name == "conv2d"
    assert store.load("mobilenet-v2").name == "mobilenet_v2"


def test_a_shipped_model_is_loaded_with_few_calls_for_each_operator() -> None:
    store.load("resnet50")
    with CallCount() as count:
        operators = store.load("swin_v2_b").n_operators  # the largest
    assert count.calls < 40 * operators
