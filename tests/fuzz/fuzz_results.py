"""Results in JSON (`diff base.json MODEL`): read, and the difference is one, or refused."""

import contextlib
import io
import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from random import Random

from hwexplorer.answer import Answer
from hwexplorer.cli import main
from hwexplorer.state import State
from tests.fuzz import mutate
from tests.fuzz.running import refused

WORDS = (
    "energy_j",
    "children",
    "rows",
    "tree",
    "compare",
    "null",
    "-1",
    "1e999",
    '""',
    "[]",
    "{}",
    "NaN",
    "\\ud800",
    "9" * 400,
)


@lru_cache(maxsize=1)
def seeds() -> tuple[bytes, ...]:
    state = State(model="mlp", devices=("t4",), on="t4", baseline="t4")
    return tuple(Answer(verb, state).to_text("json").encode() for verb in ("compare", "tree", "report"))


def mutations(random: Random) -> Iterator[bytes]:
    return mutate.files(random, list(seeds()), WORDS)


def survive(data: bytes) -> bool:
    Path("base.json").write_bytes(data)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["diff", "base.json", "mlp", "--on", "t4", "--rule", "change(energy) < 5%", "--format", "json"])
    if code == 2:
        return refused(ValueError(err.getvalue()))
    assert code in (0, 1), err.getvalue()
    json.loads(out.getvalue(), parse_constant=_no_number)
    return True


def _no_number(name: str) -> None:
    raise AssertionError(f"{name} in JSON")
