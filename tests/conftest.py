"""What the tests of a module share is made once: with `--dist loadgroup` those that use it stay together."""

import gc
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from analysis.model.process.child_job import ChildJob, ModelCapture
from hardware import device_catalog
from hwexplorer import answer as answers
from hwexplorer import engine
from hwexplorer.answer import Answer
from hwexplorer.state import State
from tests import forks

# Devices that the user made are none of the tests'.
os.environ["XDG_DATA_HOME"] = os.path.join(os.devnull, "none")

# How long an example takes is how busy the machine is. `make test` has the same examples each time, so that it fails
# for a change only; `make test-slow` has new ones (`--hypothesis-profile=random`).
QUIET = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("suite", max_examples=50, derandomize=True, database=None, **QUIET)
settings.register_profile("random", print_blob=True, **QUIET)
settings.register_profile("fuzz", print_blob=True, **QUIET)  # a hundred times as many examples of tests/fuzz
settings.load_profile("suite")


@pytest.hookimpl(tryfirst=True)  # before the groups are read
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        # To load torch and to capture a first model takes a process five seconds.
        if "forking" in getattr(item, "fixturenames", ()) or {"torch", "lowered"} & vars(item.module).keys():
            item.add_marker(pytest.mark.xdist_group("captures"))
        fixtures = getattr(item, "_fixtureinfo", None)
        definitions = fixtures.name2fixturedefs.values() if fixtures else ()
        shared = any(
            each[-1].scope in ("module", "session") and each[-1].baseid == item.location[0] for each in definitions
        )
        if shared and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.location[0]))


def pytest_collection_finish(session: pytest.Session) -> None:
    """In the cache of a test is what it puts there: from here on nobody keeps compiled modules and tables, nor does a
    child process. What was imported until now is compiled for the next run and for child processes."""
    if settings.get_current_profile_name() == "suite":
        # Hypothesis also tries the constants of the modules imported so far: which these are depends on the worker.
        providers._get_local_constants = lambda: providers._local_constants
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    gc.freeze()  # modules are never garbage: to look at a million objects of torch and Textual takes 0.4 s


@pytest.fixture(autouse=True)
def forget_folders() -> Iterator[None]:
    """Forget the folders of devices that a test named: their devices are no others' (`main` keeps them)."""
    yield
    engine.use_folders([])


@pytest.fixture(scope="session")
def forking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ...]]:
    pytest.importorskip("torch")
    with forks.server(tmp_path_factory.mktemp("forks")) as command:
        yield command


@pytest.fixture
def few_devices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The catalogue is every tenth device of it, and those that are shown first."""
    few = sorted({*device_catalog._shipped()[8::10], *State().devices})
    monkeypatch.setattr(device_catalog, "_shipped", lambda: few)
    device_catalog._list_cached.cache_clear()
    yield
    device_catalog._list_cached.cache_clear()


@pytest.fixture
def found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one report that a test prints in several formats is found once."""
    find, found = answers.find_answer, list[Answer]()

    def answer(*asked: Any) -> Answer:
        found.extend([find(*asked)] if not found else [])
        return found[0]

    monkeypatch.setattr(answers, "find_answer", answer)


@pytest.fixture
def quick_captures(forking: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Captures of this test are made by forks of a process that has loaded torch (tests/forks.py)."""
    monkeypatch.setattr(ModelCapture, "command", forking)


@pytest.fixture
def captures_alone(quick_captures: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """But these are about the process of a capture."""
    monkeypatch.setattr(ModelCapture, "command", ChildJob.command)
