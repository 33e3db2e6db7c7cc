"""What the tests of a module share is made once: with `--dist loadgroup` those that use it stay together."""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)  # before the groups are read
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        fixtures = getattr(item, "_fixtureinfo", None)
        definitions = fixtures.name2fixturedefs.values() if fixtures else ()
        shared = any(
            each[-1].scope in ("module", "session") and each[-1].baseid == item.location[0] for each in definitions
        )
        if shared and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.location[0]))
