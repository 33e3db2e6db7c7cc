"""Architectures are values of a registry: no word for one decides anything elsewhere."""

import re
import subprocess
from pathlib import Path

import pytest

from hardware import known_architectures
from hardware.device_catalog import load_device

ROOT = Path(__file__).parents[2]
OWN = "hardware/architectures/"
TORCH = "analysis/model/request_bounds.py"  # has the name of where torch puts a tensor


def product_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [
        ROOT / name
        for name in listed.split()
        if not name.startswith(("tests/", "examples/", OWN)) and (ROOT / name).is_file()
    ]


def test_no_literal_names_an_architecture_outside_its_module() -> None:
    ids = "|".join(known_architectures.ALL)
    literal = re.compile(rf"""["']({ids})(_integrated)?["']""")
    sprayed = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in product_files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if literal.search(line) and str(path.relative_to(ROOT)) != TORCH
    ]
    assert not sprayed, "\n".join(sprayed)


@pytest.mark.parametrize("name", known_architectures.ALL)
def test_an_architecture_is_complete(name: str) -> None:
    device = load_device(name)
    one = known_architectures.get(name)
    assert (one.id, device.architecture) == (name, name)
    assert device.arch is one
    assert device.last_level_bytes > 0
    labels = set(one.row)
    assert {one.dispatch_event, one.instruction_event} - {""} <= labels
    assert {label for pair in one.misses.values() for label in pair} <= labels
    capacities = [capacity for _, capacity in device.levels]
    assert all(capacity > 0 for capacity in capacities)
    assert one.timed_rows
    assert [one.events[i].component for i in one.static_rows] == ["static"] * len(one.static_rows)


@pytest.mark.parametrize("name", known_architectures.ALL)
def test_every_number_of_its_data_file_is_bounded_and_sourced(name: str) -> None:
    data = known_architectures.get(name).data
    for table in (data.assumptions, data.macros, data.logic):
        for label, constant in table.items():
            assert constant.low <= constant.value <= constant.high, label
            assert len(constant.source) > 8, label
            assert constant.quality in ("data sheet", "published", "fitted", "assumed", "derived", "design target"), (
                label
            )
    for label, field in data.facts.items():
        assert not (field.must and field.value is not None), label
        assert field.value is None or field.why, label
        if field.low is not None and field.high is not None and field.value is not None:
            assert field.low <= field.value <= field.high, label
            assert field.source, label
            assert field.quality, label
