"""ONNX files of strangers: messages altered as trees and as bytes. What is read has figures that can be."""

import re
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random

import numpy as np

from analysis.model.ir.workload import Workload
from analysis.model.model_errors import ModelError
from analysis.model.names import targets
from analysis.model.reading_budget import Budget
from hwexplorer_annexes.onnx import onnx_model
from tests.attack import onnx_files
from tests.fuzz import mutate, wired
from tests.fuzz.running import refused

CASE_SECONDS = 20.0
_STEPS = 100_000  # of the budget: what the reading of a case may come to
_SEEDS = Path(__file__).with_name("seeds")
_TABLE = Path(onnx_model.__file__).with_name("operator_table.toml")
_LONG = 4000  # bytes: of longer attack files there is nothing to learn
_WORDS = (
    *re.findall(r"^(\w+) = ", _TABLE.read_text(), re.MULTILINE),
    *(
        "x",
        "y",
        "w",
        "batch",
        "n",
        "2*batch",
        "batch//2",
        "(batch+1)**8",
        "bij,bjk->bik",
        "...ij,...jk->...ik",
        "SAME_UPPER",
    ),
    *(
        "axis",
        "axes",
        "perm",
        "pads",
        "strides",
        "dilations",
        "group",
        "to",
        "body",
        "If",
        "Loop",
        "Scan",
        "com.microsoft",
    ),
)


@cache
def seeds() -> list[bytes]:
    real = [path.read_bytes() for path in sorted(_SEEDS.glob("*.onnx"))]
    attacks = [made for build in onnx_files.SMALL.values() if len(made := build()) < _LONG]
    return [*real * 3, onnx_files.chain(5), *attacks]


def mutations(random: Random) -> Iterator[bytes]:
    trees = [tree for seed in seeds() if (tree := wired.parsed(seed))]
    while True:
        if random.random() < 0.15:
            yield mutate.flipped(random, random.choice(seeds()))
            continue
        try:
            data = wired.altered(random, trees, _WORDS)
        except RecursionError:  # messages put into messages until this side gives up
            continue
        yield mutate.flipped(random, data) if random.random() < 0.05 else data


def survive(data: bytes) -> bool:
    path = _written(data, ".onnx")
    asked = [targets.Input((2, 3, 8, 8))] if data[-1:] > b"\x80" else []
    try:
        possible(onnx_model.load(path, asked, Budget(_STEPS)))
    except ModelError as error:
        return refused(error)
    return True


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="hwexplorer-fuzz-")  # gone with this process


def _written(data: bytes, suffix: str) -> Path:
    path = Path(_folder().name) / f"net{suffix}"
    path.write_bytes(data)
    return path


def possible(workload: Workload) -> None:
    """Figures that can be, at any batch: whole, finite, not negative."""
    operators = workload.operators
    for batch in (1, 64):
        at = workload.value_at(batch=batch)
        for figures in (operators.macs, operators.flops, operators.special, operators.in_numel, workload.tensors.numel):
            assert np.isfinite(figures @ at).all(), "a figure without end"
            assert (figures @ at >= 0).all(), "a negative figure"
    assert workload.parameters >= 0
    assert all(name.isprintable() for name in operators.kind)
