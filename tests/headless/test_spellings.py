"""The command lines of the specification, and mistyped ones."""

import pytest

from hwexplorer.cli import main, parse
from tests.sampling import for_each


@for_each(
    ("line", "verb", "values"),
    [
        ("--list-models", "models", {}),
        ("--list-cpus", "devices", {"arch": "cpu"}),
        ("--list-tpus", "devices", {"arch": "tpu"}),
        ("--list-devices", "devices", {"arch": None}),
        ("compare --model resnet18 --architectures GPU TPU", "compare", {"model": "resnet18", "on": "GPU,TPU"}),
        ("compare resnet18 --cpu i9_13900k", "compare", {"model": "resnet18", "on": "i9_13900k"}),
        ("--model resnet18 --architecture GPU --level detailed", "compare", {"model": "resnet18", "on": "GPU"}),
        ("resnet18 --on GPU TPU", "open", {"model": "resnet18", "on": "GPU,TPU"}),
        ("compare --on NVIDIA-A100 tpu_v4 resnet18", "compare", {"model": "resnet18", "on": "NVIDIA-A100,tpu_v4"}),
        (
            "compare resnet18 --explain-difference GPU TPU --metric energy",
            "why",
            {"model": "resnet18", "sides": ["GPU", "TPU"]},
        ),
    ],
)
def test_the_specification_s_command_lines_are_understood(line: str, verb: str, values: dict[str, str]) -> None:
    arguments = vars(parse(line.split()))
    assert arguments["verb"] == verb
    assert {name: arguments[name] for name in values} == values


def test_a_node_inside_merged_blocks_has_a_tree_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    """It recursed without an end."""
    assert main(["tree", "resnet18", "--on", "gpu", "--node", "layer1.0.conv1"]) == 0
    assert "conv1" in capsys.readouterr().out
