"""Helpers of the capture tests: lower a toy module, and read figures off a workload by path."""

from typing import Any

import torch

from analysis.capture.exporter import export
from analysis.model.ir.workload import Workload
from analysis.model.lowering.graph_lowering import lower_graph


def lowered(module: Any, *inputs: Any) -> Workload:
    return lower_graph(export(module, list(inputs) or [torch.empty(2, 8)]), "toy")


def row(workload: Workload, path: str) -> int:
    return workload.operators.path.index(path)


def macs(workload: Workload, path: str, batch: int = 1) -> float:
    return float(workload.operators.macs[row(workload, path)] @ workload.value_at(batch=batch))


def flops(workload: Workload, path: str, batch: int = 1) -> float:
    return float(workload.operators.flops[row(workload, path)] @ workload.value_at(batch=batch))


def gemm(workload: Workload, path: str, batch: int = 1) -> tuple[int, ...]:
    """G, M, N, K."""
    return tuple(int(x) for x in workload.operators.gemm[row(workload, path)] @ workload.value_at(batch=batch))


def reads(workload: Workload, path: str, batch: int = 1) -> dict[str, int]:
    """Elements read by tensor name."""
    operators, index, point = workload.operators, row(workload, path), workload.value_at(batch=batch)
    edges = range(operators.in_ptr[index], operators.in_ptr[index + 1])
    return {workload.tensors.name[operators.in_tensor[e]]: int(operators.in_numel[e] @ point) for e in edges}


def writes(workload: Workload, path: str, batch: int = 1) -> dict[str, int]:
    operators, index, point = workload.operators, row(workload, path), workload.value_at(batch=batch)
    edges = range(operators.out_ptr[index], operators.out_ptr[index + 1])
    tensors = [int(operators.out_tensor[e]) for e in edges]
    return {workload.tensors.name[t]: int(workload.tensors.numel[t] @ point) for t in tensors}


def tensor(workload: Workload, name: str) -> int:
    return workload.tensors.name.index(name)


def checked(x: Any) -> Any:
    assert (x == x).all()
    assert not x.isnan().any(), "a message"
    assert (  # noqa: PT018
        x.sum() < 1e9  # a comment
        and not x.isinf().any()
    )
    if not (x >= 0).all() or x.isnan().any():
        raise ValueError("negative")
    return torch.nn.functional.linear(x, torch.ones(3, 4))
