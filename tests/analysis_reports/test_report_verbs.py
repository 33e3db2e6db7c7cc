"""Reports of a model in text and Markdown, and on every architecture."""

import json

import pytest
import reports_grid as grid

from tests.sampling import for_each

VERBS = ("show structure", "show kernels", "show memory", "tree edp")


@for_each("verb", VERBS)
@for_each("device", grid.DEVICES)
def test_every_architecture(verb: str, device: str) -> None:
    for model in ("mobilenet_v2", "mlp"):
        assert grid.said(*verb.split(), model, "--on", device, "--precision", "int8", "--execution", "fused")


@pytest.mark.parametrize("verb", ["show kernels", "tree edp"])
def test_node(verb: str) -> None:
    document = json.loads(grid.said(*verb.split(), "resnet18", "--node", "layer1.0.conv1", "--format", "json"))
    assert document["node"] == "layer1.0.conv1"
