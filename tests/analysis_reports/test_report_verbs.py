"""Reports of a model in text and Markdown, and on every architecture."""

import json

import pytest
import reports_grid as grid

from tests.sampling import for_each

VERBS = ("show structure", "show kernels", "show memory", "tree edp")


def words(verb: str) -> tuple[str, ...]:
    return (*verb.split(), "resnet18", "--batch", "2", "--on", "gpu")


@pytest.mark.parametrize("verb", VERBS)
def test_text_and_markdown(verb: str) -> None:
    text, page = (grid.said(*words(verb), "--all", "--format", form) for form in ("text", "md"))
    titles = [line[3:] for line in page.splitlines() if line.startswith("## ")]
    assert len(titles) >= 2
    assert page.startswith("# ")
    assert "resnet18" in page.splitlines()[0] == "# " + text.splitlines()[0]
    for title in titles:
        assert title in text.splitlines()
    assert "nan" not in text.lower().split()


@for_each("verb", VERBS)
@for_each("device", grid.DEVICES)
def test_every_architecture(verb: str, device: str) -> None:
    for model in ("mobilenet_v2", "mlp"):
        assert grid.said(*verb.split(), model, "--on", device, "--precision", "int8", "--execution", "fused")


@pytest.mark.parametrize("verb", ["show kernels", "tree edp"])
def test_node(verb: str) -> None:
    document = json.loads(grid.said(*verb.split(), "resnet18", "--node", "layer1.0.conv1", "--format", "json"))
    assert document["node"] == "layer1.0.conv1"


def test_top() -> None:
    document = json.loads(grid.said("tree", "edp", "resnet18", "--top", "3", "--format", "json"))
    assert len(document["top_operators"]) == len(document["top_subgraphs"]) == 3
