"""`hwexplorer graph`: what leaves is the model's graph with the tree's figures, and other programs read it."""

import io
import json
import subprocess
import sys
from pathlib import Path

import msgspec
import networkx
import pytest

from hwexplorer import engine
from hwexplorer.cli import main
from hwexplorer.commands.capture.graph import _graphml
from hwexplorer.reports.tree.partition import model_graph, to_networkx
from hwexplorer.state import State, parse

CASES = ("resnet18@b8,fp16,fused?on=h100_sxm", "mobilenet_v2?on=tpu_v4", "googlenet?on=xeon_8490h")


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("text", CASES)
def test_figures_are_those_of_the_run(text: str) -> None:
    result = engine.result(parse(text))
    graph = model_graph(result)
    assert sum(node.energy_j for node in graph.nodes) == pytest.approx(result.energy_j, rel=1e-9)
    assert sum(node.latency_s for node in graph.nodes) == pytest.approx(result.latency_s, rel=1e-9)
    assert sum(node.share for node in graph.nodes) == pytest.approx(1, rel=1e-9)
    assert len({node.kernel for node in graph.nodes}) == result.demand.n_kernels
    made = to_networkx(graph)
    assert networkx.is_directed_acyclic_graph(made)
    assert networkx.is_weakly_connected(made)
    assert list(made) == list(result.partition.operator_id)
    assert min(size for *_, size in made.edges.data("bytes")) > 0


@pytest.mark.parametrize("text", CASES)
def test_networkx_reads_graphml_back(text: str) -> None:
    graph = model_graph(engine.result(parse(text)))
    made, read = to_networkx(graph), networkx.read_graphml(io.BytesIO(_graphml(graph).encode()))
    assert {name: value for name, value in read.graph.items() if not name.endswith("_default")} == made.graph
    assert dict(read.nodes.data()) == dict(made.nodes.data())
    assert list(read.edges.data("bytes")) == list(made.edges.data("bytes"))
    networkx.write_graphml_xml(made, io.BytesIO())


def test_names_that_would_break_out() -> None:
    graph = model_graph(engine.result(State("conv2d")))
    name = 'a"];evil[b="\\" <x> & \x1b[31m\x00'
    hostile = msgspec.structs.replace(graph.nodes[0], id=name)
    changed = msgspec.structs.replace(graph, nodes=(hostile,), edges=(), model=name)
    assert len(networkx.read_graphml(io.BytesIO(_graphml(changed).encode()))) == 1
    assert "\x1b" not in _graphml(changed)


def test_the_format_follows_the_suffix(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ("graph", "conv2d", "--on", "gpu")
    document = json.loads(printed(capsys, *words))
    assert (document["schema"], document["device"]) == ("hwexplorer/1", "h100_sxm")
    for suffix, form in ((".json", "json"), (".graphml", "graphml")):
        target = tmp_path / f"graph{suffix}"
        assert main([*words, "-o", str(target)]) == 0
        assert target.read_text() == printed(capsys, *words, "--format", form)
    assert main([*words, "-o", str(tmp_path / "graph.csv")]) == 2
    assert "allowed: .json, .graphml" in capsys.readouterr().err


def test_networkx_is_imported_for_graphml_alone() -> None:
    code = (
        "import sys; from hwexplorer.cli import main\n"
        "for form in ('json', 'graphml'):\n"
        "    assert main(['graph', 'conv2d', '--format', form]) == 0\n"
        "    print('networkx' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert done.stderr.split() == ["False", "True"]
