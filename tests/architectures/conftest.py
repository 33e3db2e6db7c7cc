"""The toy architecture, registered for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hardware.architectures import registry
from tests.architectures.abacus import ABACUS

DEVICES = Path(__file__).with_name("devices")


@pytest.fixture(scope="module", autouse=True)
def abacus() -> Iterator[Path]:
    """The folder of its devices."""
    registry.register(ABACUS)
    yield DEVICES
    registry.unregister(ABACUS.id)
