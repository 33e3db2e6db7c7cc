"""The toy architecture, registered for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hardware.architectures import known_architectures
from tests.architectures.abacus import ABACUS

DEVICES = Path(__file__).with_name("devices")


@pytest.fixture(scope="module", autouse=True)
def abacus() -> Iterator[Path]:
    """The folder of its devices."""
    known_architectures.register(ABACUS)
    yield DEVICES
    known_architectures.unregister(ABACUS.id)
