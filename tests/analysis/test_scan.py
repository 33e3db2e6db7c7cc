"""A small sample of the scan that `python -m lab.scan` makes by hand."""

from lab.scan import scan


def test_runs_keep_their_limits_and_better_hardware_is_never_slower() -> None:
    assert not list(scan(80, seed=2))
