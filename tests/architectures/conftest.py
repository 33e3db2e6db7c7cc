"""The toy architecture, as a plug-in of another package, for the tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.plugged import plug_in


@pytest.fixture(scope="module", autouse=True)
def abacus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with plug_in(tmp_path_factory.mktemp("site"), architectures={"abacus": "tests.architectures.abacus:ARCHITECTURE"}):
        yield
