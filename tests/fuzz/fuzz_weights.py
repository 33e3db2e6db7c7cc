"""Files of weights of strangers: headers of GGUF and safetensors altered as bytes."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from analysis.model.model_errors import ModelError
from analysis.model.reading_budget import Budget
from analysis.model.transformer import weight_headers
from tests.attack import weight_files
from tests.fuzz import mutate
from tests.fuzz.fuzz_onnx import _STEPS, _written, possible
from tests.fuzz.running import refused

CASE_SECONDS = 20.0
_HEADER = {"__metadata__": {"format": "pt"}, "w": {"dtype": "BF16", "shape": [64, 100], "data_offsets": [0, 12800]}}


def mutations(random: Random) -> Iterator[tuple[str, bytes]]:
    """(the suffix, the file)."""
    seeds = {".gguf": weight_files.gguf(), ".safetensors": weight_files.safetensors(_HEADER)}
    while True:
        suffix = random.choice(list(seeds))
        yield suffix, mutate.flipped(random, seeds[suffix])


def survive(case: tuple[str, bytes]) -> bool:
    suffix, data = case
    try:
        possible(weight_headers.load(_written(data, suffix), "", Budget(_STEPS)))
    except ModelError as error:
        return refused(error)
    return True
