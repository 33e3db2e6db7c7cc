"""The toy architecture, registered for the tests of this folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hardware import known_architectures
from tests.architectures import abacus as module

NAME = "abacus"
DEVICES = Path(__file__).with_name("devices")


@pytest.fixture(scope="module", autouse=True)
def abacus() -> Iterator[Path]:
    """The folder of its devices."""
    sys.modules["hardware.architectures.abacus"] = module
    known_architectures._KNOWN[NAME] = {"module": "architectures.abacus", "default_device": "abacus_one"}
    yield DEVICES
    del known_architectures._KNOWN[NAME], sys.modules["hardware.architectures.abacus"]
