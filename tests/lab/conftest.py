"""The laboratory's tests read rows of software of earlier years."""

import tomllib
from collections.abc import Iterator

import pytest

import lab
from hardware.base import plugins


@pytest.fixture(autouse=True, scope="module")
def superseded_runtimes() -> Iterator[None]:
    lab.load_superseded_runtimes()
    yield
    for name in tomllib.loads(lab.SUPERSEDED.read_text(encoding="utf-8"))["runtimes"]:
        del plugins.entry_points("runtimes")[name]
