"""Every model of torchvision opens from what ships, headless, with finite figures and full coverage."""

from collections.abc import Callable
from typing import Any

from analysis.model.names import zoo
from tests.sampling import every

NAMES = tuple(zoo.table())


def test_all_of_torchvision_is_listed(document: Callable[..., Any]) -> None:
    assert len(NAMES) == 121
    listed = {model["name"] for model in document("models")["models"]}
    assert set(NAMES) <= listed


@every(3)
def test_compare(nth: int, document: Callable[..., Any]) -> None:
    for name in NAMES[::nth]:
        found = document("compare", name)
        assert (found["coverage"], len(found["rows"])) == (1.0, 4), name
        for row in found["rows"]:
            assert 0 < row["latency_s"] < 1000, name
            assert 0 < row["energy_j"] < 1e6, name
            assert row["average_power_w"] <= row["power_limit_w"] * (1 + 1e-9), name
            assert 0 <= row["utilization"] <= 1, name
