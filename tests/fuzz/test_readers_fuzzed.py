"""A short run of every reader's fuzzer; `make fuzz` has the long one."""

import pytest

from tests.fuzz import running


@pytest.mark.parametrize("reader", running.readers())
def test_altered_input_is_read_or_refused(reader: str) -> None:
    outcome = running.run(reader, 100, 20.0, seed=1)
    assert outcome.failures == {}, outcome.line()
    assert outcome.cases > 0


def test_a_reader_that_raises_or_hangs_has_failed_and_goes_on() -> None:
    outcome = running.run("tests.fuzz.hopeless", 4, 20.0, seed=0)
    assert (outcome.cases, outcome.read) == (4, 1)
    assert list(outcome.failures.values()) == [1, 2]  # the third case fails as the first did
    raised, slow = outcome.failures
    assert raised.startswith("ValueError in hopeless.py")
    assert slow.startswith("TooSlow in hopeless.py")


def test_a_reader_that_ends_its_process_has_failed() -> None:
    assert running.run("tests.fuzz.hopeless", 6, 20.0, seed=0).failures == {"the process ended with 3": 4}
