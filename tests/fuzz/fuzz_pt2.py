"""Exported programs of strangers: their JSON altered as text, and the archives as bytes."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from functools import cache
from random import Random

from analysis.annexes.readers import pt2
from analysis.model.model_errors import ModelError
from analysis.model.reading_budget import Budget
from tests.attack import pt2_files
from tests.fuzz import mutate
from tests.fuzz.fuzz_onnx import _SEEDS, _STEPS, _written, possible
from tests.fuzz.running import refused

CASE_SECONDS = 20.0
_WORDS = (
    *("s0", "s77", "2*s0", "Mul(Integer(2), Symbol('s0'))", "FloorDiv(s0, 2)", "(s0+1)**8", "Max(1, s0)", "Pow(s0, 9)"),
    *(
        "as_tensor",
        "as_int",
        "as_ints",
        "as_expr",
        "as_name",
        "as_none",
        "as_tensors",
        "as_sym_int",
        "as_sym_ints",
        "hint",
    ),
    *(
        "user_input",
        "parameter",
        "buffer",
        "tensor_constant",
        "torch.ops.aten.add.Tensor",
        "torch.ops.aten.conv2d.default",
    ),
    *(
        "torch.ops.aten.view.default",
        "torch.ops.aten.relu_.default",
        "torch.ops.aten.split.Tensor",
        "getitem",
        "null",
        "{}",
    ),
)


@cache
def seeds() -> tuple[list[bytes], list[bytes]]:
    """Texts of programs, and archives."""
    paths = sorted(_SEEDS.glob("*.pt2"))
    texts = [json.dumps(pt2_files.program()).encode()]
    for path in paths:
        with zipfile.ZipFile(path) as archive:
            name = next(name for name in archive.namelist() if name.endswith("models/model.json"))
            texts.append(archive.read(name))
    archives = [build() for build in pt2_files.SMALL.values()]
    return texts, [*(path.read_bytes() for path in paths), *archives]


def mutations(random: Random) -> Iterator[bytes]:
    texts, archives = seeds()
    altered = mutate.files(random, texts, _WORDS)
    while True:
        if random.random() < 0.2:
            yield mutate.flipped(random, random.choice(archives))
        else:
            yield pt2_files.archive(next(altered).decode("utf-8", "replace"), how=zipfile.ZIP_STORED)


def survive(data: bytes) -> bool:
    try:
        possible(pt2.load(_written(data, ".pt2"), Budget(_STEPS)))
    except ModelError as error:
        return refused(error)
    return True
