"""Figures of every verb, of models and architectures of every kind, are those that were recorded (lab/replay.py)."""

import copy
import math
import re

from lab import replay


def test_figures_are_those_recorded(capsys) -> None:
    with replay.isolated():
        found = [replay.compare_entry(entry) for entry in replay.read_entries(replay.FIXTURE)]
    assert len(found) > 140
    assert sum(entry["compared"] for entry in found) > 5000
    assert replay.tell_found(found) == 0, capsys.readouterr().out


def test_one_altered_number_is_found_out(capsys) -> None:
    with replay.isolated():
        whole = replay.record_request({"argv": ["compare", "conv2d", "--format", "json"]})
        few = next(entry for entry in replay.read_entries(replay.FIXTURE) if entry["argv"][:2] == ["tree", "resnet18"])
        assert replay.tell_found([replay.compare_entry(entry) for entry in (whole, few)], strict=True) == 0
        value = re.search(r'"latency_s": ([0-9.e-]+)', whole["printed"])[1]
        altered = {**whole, "printed": whole["printed"].replace(value, repr(math.nextafter(float(value), 1)), 1)}
        path = next(path for path, value in few["picked"].items() if value)
        other = copy.deepcopy(few)
        other["picked"][path] *= 1 + 1e-8
        for entry, count in ((altered, 1), (other, 1)):
            found = replay.compare_entry(entry)
            assert found["sums"] == {"codes": 0, "figures": count, "numbers": 0, "texts": 0, "added": 0}
            assert replay.tell_found([found]) == 1
    assert path in capsys.readouterr().out
