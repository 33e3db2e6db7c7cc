"""The command line called in this process, and the parts its texts are made of."""

import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hwexplorer import engine
from hwexplorer.cli import main


@dataclass(frozen=True)
class Done:
    """What a call left: exit code and both streams."""

    code: int
    out: str
    err: str


Call = Callable[..., Done]


@pytest.fixture(autouse=True)
def clean(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No cache but an empty one, and nothing remembered of another test's folders and captures."""
    monkeypatch.setenv("HWEXPLORER_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("HWEXPLORER_DEBUG", raising=False)
    yield
    engine.use_folders([])
    engine.reset()


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """`call("compare", "resnet18")`: exit code, standard output and error."""

    def run(*words: str) -> Done:
        try:
            code = main(list(words))
        except SystemExit as error:  # argparse ends --help and --version this way
            code = int(error.code or 0)
        out, err = capsys.readouterr()
        return Done(code, out, err)

    return run


@pytest.fixture
def document(call: Call) -> Callable[..., Any]:
    """The JSON of a call that must succeed."""

    def run(*words: str) -> Any:
        done = call(*words, "--format", "json")
        assert (done.code, done.err) == (0, ""), done
        return json.loads(done.out, parse_constant=_refuse)

    return run


def _refuse(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


@pytest.fixture
def refused(call: Call) -> Callable[..., str]:
    """The one line on standard error of a call that must be refused."""

    def run(*words: str, code: int = 2) -> str:
        done = call(*words)
        assert done.code == code, done
        assert done.out == ""
        assert done.err.startswith("hwexplorer: ")
        assert done.err.count("\n") == 1
        assert done.err.endswith("\n")
        assert done.err.strip().isprintable()
        assert "Traceback" not in done.err
        assert "internal error" not in done.err
        return done.err

    return run


@pytest.fixture
def parsed() -> Callable[[str], list[dict[str, str]]]:
    """The first table of a text as rows by header; fails where a column does not line up."""
    return parse_table


def parse_table(text: str) -> list[dict[str, str]]:
    lines = text.splitlines()
    assert not [line for line in lines if line != line.rstrip()], "trailing space"
    # After the title; of a comparison, after the answer.
    start = lines.index("", lines.index("Devices") if "Devices" in lines else 0) + 1
    end = lines.index("", start) if "" in lines[start:] else len(lines)
    rows = [_cells(line) for line in lines[start:end]]
    width = max(map(len, rows))
    rows = [row.ljust(width) for row in rows]
    # A column ends where two blanks stand in every line.
    gap = [all(row[i] == row[i + 1] == " " for row in rows) for i in range(width - 1)] + [False]
    cuts = [0, *(i + 2 for i in range(width - 1) if gap[i] and not gap[i + 1]), width]
    table = [[row[a:b].strip().replace("\0", "") for a, b in pairwise(cuts)] for row in rows]
    headers = re.split(r" {2,}", lines[start].strip())
    assert table[0] == headers, (table[0], headers)
    assert len(set(headers)) == len(headers), headers
    return [dict(zip(headers, row, strict=True)) for row in table[1:]]


def _cells(line: str) -> str:
    """One character per column of a terminal."""
    return "".join(c + "\0" * (unicodedata.east_asian_width(c) in "WF") for c in line)


_PREFIX = {"a": 1e-18, "f": 1e-15, "p": 1e-12, "n": 1e-9, "µ": 1e-6, "m": 1e-3, "": 1.0}
_PREFIX |= {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_SYMBOLS = ("FLOP/s", "B/s", "FLOP", "MAC", "J·s", "/s", "s", "J", "B", "W")


def factor(header: str) -> float:
    """What the unit at the end of a header multiplies its cells with."""
    word = header.split()[-1]
    if word == "%":
        return 0.01
    for symbol in _SYMBOLS:
        prefix = word.removesuffix(symbol)
        if word.endswith(symbol) and prefix in _PREFIX:
            return _PREFIX[prefix]
    return 1.0


def shows(cell: str, value: float, unit: float) -> bool:
    """Whether a printed number is this value, to half of its last digit; a cell may have a prefix of its own."""
    if match := re.fullmatch(r"(.+) ([kMGTPEmnpfµ])", cell):
        prefixes = dict(
            zip("fpnµmkMGTPE", (1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 1e3, 1e6, 1e9, 1e12, 1e15, 1e18), strict=True)
        )
        return shows(match[1], value, unit * prefixes[match[2]])
    cell = cell.removesuffix("x")  # of a factor
    if match := re.fullmatch(r"(-?)<(\.\d+|1)", cell):
        return 0 < abs(value) / unit < float(match[2])
    if not re.fullmatch(r"-?[\d,]+(\.\d+)?", cell):
        return False
    decimals = len(cell.partition(".")[2])
    return abs(float(cell.replace(",", "")) - value / unit) <= 0.5000001 * 10**-decimals


DEVICE = Path(__file__).parents[2] / "hardware" / "catalog" / "t4.toml"


@pytest.fixture
def device_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes a device of the user's own, the T4 with changes, and returns its folder."""

    def write(name: str = "my_gpu", *changes: tuple[str, str], raw: bytes | None = None, folder: str = "mine") -> Path:
        text = DEVICE.read_text(encoding="utf-8").replace('id = "t4"', f'id = "{name}"')
        for old, new in changes:
            assert re.search(old, text), old
            text = re.sub(old, lambda _match, new=new: new, text, count=1)  # type: ignore[misc]
        place = tmp_path / folder
        place.mkdir(exist_ok=True)
        (place / f"{name}.toml").write_bytes(text.encode() if raw is None else raw)
        return place

    return write
