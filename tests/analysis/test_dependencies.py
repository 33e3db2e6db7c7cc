"""Paths and stages of dependency graphs, against brute force."""

from itertools import combinations, pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.estimate.operator_facts import Dependencies, heaviest_path, levels, operator_graph, subgraph_graph
from analysis.model.names import zoo
from tests.models import load_once
from tests.sampling import for_each


def graph(n: int, edges: list[tuple[int, int]]) -> Dependencies:
    ordered = sorted(set(edges))
    source, target = ([edge[side] for edge in ordered] for side in (0, 1))
    return Dependencies(n, np.array(source, dtype=np.int32), np.array(target, dtype=np.int32), ((0,),) * len(ordered))


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Dependencies, np.ndarray]:
    n = draw(st.integers(1, 7))
    pairs = [(a, b) for a in range(n) for b in range(a + 1, n)]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=12)) if pairs else []
    weights = draw(st.lists(st.integers(0, 9), min_size=n, max_size=n))
    return graph(n, edges), np.array(weights, dtype=np.float64)


def chains(g: Dependencies) -> list[tuple[int, ...]]:
    edges = set(zip(g.source.tolist(), g.target.tolist(), strict=True))
    found: list[tuple[int, ...]] = []
    for size in range(1, g.n + 1):
        found += [nodes for nodes in combinations(range(g.n), size) if edges.issuperset(pairwise(nodes))]
    return found


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_heaviest_path_and_levels_by_brute_force(case: tuple[Dependencies, np.ndarray]) -> None:
    g, weight = case
    every = chains(g)
    total, path = heaviest_path(g, weight)
    assert path in every
    assert total == weight[list(path)].sum() == max(weight[list(nodes)].sum() for nodes in every)
    deepest = [max(len(nodes) for nodes in every if nodes[-1] == i) - 1 for i in range(g.n)]
    assert levels(g).tolist() == deepest


def test_empty() -> None:
    assert heaviest_path(graph(0, []), np.zeros(0)) == (0.0, ())
    assert levels(graph(0, [])).tolist() == []


@for_each("name", list(zoo.table()))
def test_every_edge_points_forward(name: str) -> None:
    """What both graphs rest on: execution order is an order of the dependencies, of subgraphs too."""
    work = load_once(name)
    for g in (operator_graph(work), subgraph_graph(work)):
        assert (g.source < g.target).all()
        assert len(set(zip(g.source.tolist(), g.target.tolist(), strict=True))) == len(g.source)
