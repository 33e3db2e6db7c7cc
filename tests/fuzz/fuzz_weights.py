"""Files of weights of strangers: headers of GGUF altered as bytes."""

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


def mutations(random: Random) -> Iterator[bytes]:
    seed = weight_files.gguf()
    while True:
        yield mutate.flipped(random, seed)


def survive(data: bytes) -> bool:
    try:
        possible(weight_headers.load(_written(data, ".gguf"), "", Budget(_STEPS)))
    except ModelError as error:
        return refused(error)
    return True
