"""Our multiply-accumulates against torch.utils.flop_counter: `python flop_counter_check.py [NAME ..]` prints JSON
with both counts per model (FLOPs of contractions, 2 per MAC, one input). Without names: every torchvision model
whose forward pass runs on the meta device as it is, and the ten models of the tests."""

import json
import sys
from typing import Any

import torch
from ten_models import ten
from torch.utils.flop_counter import FlopCounterMode

from analysis.capture.exporter import export
from analysis.capture.torch_settings import export_settings, import_torchvision, without_weights
from analysis.capture.torchvision_models import _torchvision, adapt, inputs, patches
from analysis.model import store
from analysis.model.ir.workload import Workload
from analysis.model.lowering.graph_lowering import lower_graph
from analysis.model.names import zoo


def ours(workload: Workload) -> int:
    return int(2 * (workload.operators.macs @ workload.value_at(batch=1)).sum())


def theirs(module: Any, given: list[Any]) -> int:
    counter = FlopCounterMode(display=False)
    with export_settings(), patches(), counter:
        module(*given)
    return int(counter.get_total_flops())


def torchvision(name: str) -> tuple[int, int]:
    info = zoo.table()[name]
    import_torchvision()
    with without_weights():
        module = adapt(_torchvision(info, info.image_size), info).eval().to("meta")
    given, _ = inputs(info, info.image_size)
    return ours(store.load(name)), theirs(module, [value[:1] for value in given])


def written(name: str, device: str = "cpu") -> tuple[int, int]:
    counted = ten()[name]
    module = counted.module.eval().to(device)
    given = [value.to(device) for value in counted.inputs]
    workload = lower_graph(export(counted.module, given), name)
    return ours(workload), theirs(module, [value[:1] for value in given])


def part(name: str) -> tuple[int, int]:
    """A single module on the device its name says: `lstm@meta`."""
    kind, _, device = name.partition("@")
    module, shape = PARTS[kind]
    given = [torch.zeros(shape, device=device)]
    return ours(
        lower_graph(export(module.to(device).eval(), [torch.zeros(2, *shape[1:], device=device)]), name)
    ), theirs(module, given)


class Attention(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(x, x, x)


class Explicit(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return (x @ x.transpose(-2, -1)).softmax(-1) @ x


PARTS: dict[str, tuple[torch.nn.Module, tuple[int, ...]]] = {
    "attention": (Attention(), (1, 2, 8, 4)),
    "explicit_attention": (Explicit(), (1, 2, 8, 4)),
    "lstm_layer": (torch.nn.LSTM(4, 6, batch_first=True), (1, 5, 4)),
    "gru_layer": (torch.nn.GRU(4, 6, batch_first=True), (1, 5, 4)),
    "encoder_layer": (torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (1, 5, 8)),
    "grouped_transposed": (torch.nn.ConvTranspose2d(4, 6, 3, groups=2), (1, 4, 5, 5)),
}


def main(names: list[str]) -> dict[str, tuple[int, int]]:
    found = {}
    every = [info.name for info in zoo.models() if info.family != "quantized"]
    for name in names or [*every, *ten(), *(f"{kind}@{device}" for kind in PARTS for device in ("cpu", "meta"))]:
        try:
            found[name] = part(name) if "@" in name else written(name) if name in ten() else torchvision(name)
        except Exception as error:  # one that does not run on the meta device is no reason to stop
            print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0][:150]}", file=sys.stderr)
    return found


if __name__ == "__main__":
    torch.manual_seed(0)
    print(json.dumps(main(sys.argv[1:])))
