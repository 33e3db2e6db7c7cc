"""The reports about models under a load, which take the place of others."""

from types import ModuleType


def under_load() -> ModuleType:
    """Import these reports, which the usual questions do not need."""
    from hwexplorer.reports.show import load

    return load
