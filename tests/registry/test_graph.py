"""`hwexplorer graph`: what leaves is the model's graph with the tree's figures, and other programs read it."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import networkx
import pytest

from analysis.reports.model_graph import model_graph, to_networkx
from hwexplorer import engine
from hwexplorer.cli import main
from hwexplorer.commands.capture.graph import _dot, _graphml
from hwexplorer.state import State, parse

CASES = ("resnet18@b8,fp16,fused?on=h100_sxm", "mobilenet_v2?on=tpu_v4", "googlenet?on=xeon_8490h")
TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*"|[A-Za-z_]\w*)|(->)|([{}\[\];,=]))')


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


def _tokens(text: str) -> list[str]:
    tokens, at = [], 0
    while at < len(text.rstrip()):
        match = TOKEN.match(text, at)
        assert match, f"no token at {text[at : at + 40]!r}"
        tokens.append(next(part for part in match.groups() if part))
        at = match.end()
    return tokens


def _name(token: str) -> str:
    return re.sub(r"\\(.)", r"\1", token[1:-1]) if token.startswith('"') else token


def _read_dot(text: str) -> tuple[dict[str, dict[str, str]], dict[tuple[str, str], dict[str, str]]]:
    """Nodes and edges of a DOT file, by the part of its grammar that is used: anything else fails."""
    tokens = iter(_tokens(text))
    nodes: dict[str, dict[str, str]] = {}
    edges: dict[tuple[str, str], dict[str, str]] = {}
    assert next(tokens) == "digraph"
    next(tokens)
    assert next(tokens) == "{"
    depth = 1
    while depth:
        token = next(tokens)
        if token == "}":
            depth -= 1
        elif token == "subgraph":
            assert _name(next(tokens)).startswith("cluster")
            assert next(tokens) == "{"
            depth += 1
        else:
            ends, token_after = [_name(token)], next(tokens)
            if token_after == "->":
                ends.append(_name(next(tokens)))
                token_after = next(tokens)
            assert token_after == "["
            attributes: dict[str, str] = {}
            while token_after != "]":
                name = next(tokens)
                assert next(tokens) == "="
                attributes[name] = _name(next(tokens))
                token_after = next(tokens)
            assert next(tokens) == ";"
            if len(ends) == 2:
                edges[ends[0], ends[1]] = attributes
            elif ends != ["node"]:
                nodes[ends[0]] = attributes
    assert next(tokens, None) is None
    return nodes, edges


@pytest.mark.parametrize("text", CASES)
def test_dot_holds_the_same(text: str) -> None:
    graph = model_graph(engine.result(parse(text)))
    nodes, edges = _read_dot(_dot(graph))
    made = to_networkx(graph)
    assert set(nodes) == set(made)
    assert set(edges) == set(made.edges)
    for name, attributes in nodes.items():
        for key, value in made.nodes[name].items():
            expected: Any = value if isinstance(value, str) else pytest.approx(value, rel=1e-5)
            assert (attributes[key] if isinstance(value, str) else float(attributes[key])) == expected


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_draws_it() -> None:
    text = _dot(model_graph(engine.result(State("resnet18"))))
    drawn = subprocess.run(["dot", "-Tplain"], input=text, capture_output=True, text=True, check=True, timeout=60)
    assert drawn.stdout.count("\nnode ") == len(_read_dot(text)[0])


def test_names_that_would_break_out() -> None:
    graph = model_graph(engine.result(State("conv2d")))
    name = 'a"];evil[b="\\" <x> & \x1b[31m\x00'
    hostile = msgspec.structs.replace(graph.nodes[0], id=name)
    changed = msgspec.structs.replace(graph, nodes=(hostile,), edges=(), model=name)
    assert len(_read_dot(_dot(changed))[0]) == 1
    assert len(networkx.read_graphml(io.BytesIO(_graphml(changed).encode()))) == 1
    assert "\x1b" not in _dot(changed) + _graphml(changed)


def test_the_format_follows_the_suffix(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ("graph", "conv2d", "--on", "gpu")
    document = json.loads(printed(capsys, *words))
    assert (document["schema"], document["device"]) == ("hwexplorer/1", "h100_sxm")
    for suffix, form in ((".json", "json"), (".graphml", "graphml"), (".dot", "dot"), (".gv", "dot")):
        target = tmp_path / f"graph{suffix}"
        assert main([*words, "-o", str(target)]) == 0
        assert target.read_text() == printed(capsys, *words, "--format", form)
    assert main([*words, "-o", str(tmp_path / "graph.csv")]) == 2
    assert "allowed: .json, .graphml, .dot, .gv" in capsys.readouterr().err


def test_networkx_is_imported_for_graphml_alone() -> None:
    code = (
        "import sys; from hwexplorer.cli import main\n"
        "for form in ('json', 'dot', 'graphml'):\n"
        "    assert main(['graph', 'conv2d', '--format', form]) == 0\n"
        "    print('networkx' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr.split() == ["False", "False", "True"]
