"""What the tests of the reports share: cases, toys built by hand, and the command line."""

import io
from collections.abc import Sequence
from contextlib import redirect_stdout
from functools import cache

import numpy as np

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from analysis.model.ir.workload import ACTIVATION, INPUT, InputSpec, Operators, Tensors, Workload, csr
from hardware.device_catalog import load_device
from hwexplorer.cli import main
from tests.models import load_once

DEVICES = ("cpu", "gpu", "tpu", "npu", "kpu")
MODELS = ("resnet18", "mobilenet_v2", "googlenet", "vit_b_16", "densenet121", "gemm", "mlp", "resnet_block")
CASES = [
    (model, device, batch, execution)
    for model in MODELS
    for device in DEVICES
    for batch, execution in ((1, "auto"), (16, "eager"), (16, "fused"))
]


@cache
def run(model: str, device: str = "gpu", batch: int = 1, execution: str = "auto", precision: str = "fp32") -> Estimate:
    return estimate(load_once(model), load_device(device), Scenario(batch, precision, execution))


def toy(rows: Sequence[tuple[str, str, Sequence[str], int]]) -> Workload:
    """A workload of operators (name, kind, inputs, elements written per input of the batch). `x` has 1 element and is
    the input; the last operator's result is the output. Every element costs one FLOP."""
    names = ["x", *(name for name, *_ in rows)]
    index = {name: t for t, name in enumerate(names)}
    n = len(rows)
    numel = np.array([[0.0, 1.0], *([0.0, float(size)] for *_, size in rows)])
    in_ptr, in_tensor = csr([[index[name] for name in inputs] for _, _, inputs, _ in rows])
    out_ptr, out_tensor = csr([[index[name]] for name, *_ in rows])
    last = {index[name]: i for i, (_, _, inputs, _) in enumerate(rows) for name in inputs}
    last |= {n: n - 1, 0: n - 1}
    zero = np.zeros((n, 2))
    return Workload(
        "toy", "toy", "test", (InputSpec("x", "float32", ("batch", 1)),), None, 0, ("batch",), ((0,), (1,)),
        Operators(
            tuple(names[1:]), tuple(kind for _, kind, *_ in rows), tuple(names[1:]), ("",) * n, zero, numel[1:], zero,
            np.zeros((n, 4, 2)), in_ptr, in_tensor, numel[in_tensor], out_ptr, out_tensor, np.ones(n, dtype=np.bool_),
        ),
        Tensors(
            tuple(names), np.array([INPUT] + [ACTIVATION] * n, dtype=np.int32), numel,
            np.zeros(n + 1, dtype=np.int32), np.arange(n + 1, dtype=np.int32),
            np.array([-1, *range(n)], dtype=np.int32),
            np.array([last.get(t, max(t - 1, 0)) for t in range(n + 1)], dtype=np.int32),
            np.array([t == n for t in range(n + 1)], dtype=np.bool_),
        ),
    )  # fmt: skip


def run_toy(rows: Sequence[tuple[str, str, Sequence[str], int]], device: str = "gpu", batch: int = 1) -> Estimate:
    return estimate(toy(rows), load_device(device), Scenario(batch, "fp32", "eager"))


def said(*words: str) -> str:
    """What the command line prints; it must succeed."""
    out = io.StringIO()
    with redirect_stdout(out):
        assert main(words) == 0
    return out.getvalue()
