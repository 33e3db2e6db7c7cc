"""ONNX files: the same work as a capture of the model they were made from, read in a process of its own."""

import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from capture_toys import lowered
from ten_models import ten
from torch import nn

from analysis.capture.torch_settings import export_settings, import_torchvision
from analysis.model import store
from analysis.model.ir import workload
from analysis.model.ir.workload import Workload
from hwexplorer_annexes.onnx import onnx_model as onnx_model
from tests.sampling import first

TEN = ten()
# GoogLeNet: branches; the others each have an operator family of their own.
VISION = ("squeezenet1_1", "mobilenet_v3_small", "resnet18", "shufflenet_v2_x0_5", "googlenet")


def save(module: nn.Module, path: Path, *inputs: torch.Tensor, dynamo: bool = True) -> Path:
    for tensor in module.state_dict().values():  # an exporter joins constants that are equal
        if tensor.is_floating_point():
            nn.init.uniform_(tensor, 0.1, 0.9)
    names = [f"x{place}" for place in range(len(inputs))]
    how: dict[str, Any] = {"optimize": False, "external_data": False, "verbose": False}
    how["dynamic_shapes"] = tuple({0: torch.export.Dim("batch", min=1, max=4096)} for _ in inputs)
    if not dynamo:
        how = {"dynamic_axes": {name: {0: "batch"} for name in names}, "do_constant_folding": False}
        how |= {"training": torch.onnx.TrainingMode.PRESERVE, "opset_version": 17}
    with export_settings(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module.eval(), inputs, str(path), input_names=names, dynamo=dynamo, **how)
    return path


def total(w: Workload, what: str, batch: int = 1) -> float:
    return float((getattr(w.operators, what) @ w.value_at(batch=batch)).sum())


Exported = Callable[[str, bool], Path]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """The file of a model of torchvision by either exporter, which takes seconds to write."""
    folder = tmp_path_factory.mktemp("onnx")

    @cache
    def file(name: str, dynamo: bool) -> Path:
        module = import_torchvision().models.get_model(name, weights=None)
        return save(module, folder / f"{name}-{dynamo}.onnx", torch.empty(2, 3, 224, 224), dynamo=dynamo)

    return file


@pytest.mark.parametrize(("name", "dynamo"), first([*product(VISION, (True, False))], 2))
def test_torchvision_equals_the_shipped_capture(name: str, dynamo: bool, exported: Exported) -> None:
    w = store.load(str(exported(name, dynamo)))
    shipped = store.load(name)
    assert w.operators.has_rule.all()
    for batch in (1, 5):
        assert total(w, "macs", batch) == total(shipped, "macs", batch)
        assert total(w, "flops", batch) == pytest.approx(total(shipped, "flops", batch), rel=0.02)
    if name != "googlenet":  # its auxiliary heads are parameters, but no part of the graph
        assert w.parameters == pytest.approx(shipped.parameters, rel=0.005)
    assert workload.fixed_batch(w) is None


def test_modules_name_the_tree(exported: Exported) -> None:
    shipped = store.load("squeezenet1_1").operators
    convolutions = [path for path, kind in zip(shipped.path, shipped.kind, strict=True) if kind == "conv"]
    for dynamo in (True, False):
        paths = onnx_model.load(exported("squeezenet1_1", dynamo)).operators.path
        assert set(convolutions) <= set(paths)


@pytest.mark.parametrize("name", first(list(TEN), 2))
def test_ten_architectures(name: str, tmp_path: Path) -> None:
    counted = TEN[name]
    captured = lowered(counted.module.eval(), *counted.inputs)
    path = save(counted.module, tmp_path / "net.onnx", *counted.inputs)
    w = onnx_model.load(path)
    assert w.operators.has_rule.all(), [w.operators.target[i] for i in (~w.operators.has_rule).nonzero()[0]]
    for batch in (1, 3):
        assert total(w, "macs", batch) == pytest.approx(total(captured, "macs", batch), rel=0.005)
    assert w.parameters == pytest.approx(captured.parameters, rel=0.005)


def test_the_process_that_asks_needs_neither_torch_nor_onnx(tmp_path: Path) -> None:
    path = save(nn.Sequential(nn.Linear(8, 4), nn.ReLU()), tmp_path / "net.onnx", torch.empty(2, 8))
    code = f"""
import sys
from analysis.model import store
from hardware.base import plugins
print(store.load({str(path)!r}).parameters)
assert not {{"torch", "onnx", "google.protobuf"}} & set(sys.modules)
sys.modules["onnx"] = None  # as if it were not installed
try:
    plugins.load("readers", ".onnx")
except plugins.RequestError as error:
    assert str(error).endswith("ONNX files need the package onnx: pip install onnx"), error
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("36", 0), done.stderr
