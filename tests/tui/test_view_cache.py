"""What a view reads of the state is recorded: it is made anew when that changes, and only then."""

from typing import Any

import pytest

from hwexplorer.screen_queries import ScreenQueries
from hwexplorer.state import State, parse, pinned, replace
from hwexplorer.tui.session.view_cache import TracedState, ViewCache

START = parse("resnet18@b8,fp16?at=layer1.0.conv1")
OTHERS: dict[str, dict[str, Any]] = {
    "at": {"at": "fc"},
    "batch": {"batch": 16},
    "metric": {"metric": "energy"},
    "on": {"on": "tpu_v4"},
    "pane": {"pane": "why"},
    "find": {"find": "conv"},
}
READS = {
    "cards": {"batch", "metric"},
    "tree": {"batch", "metric", "on"},
    "events": {"at", "batch", "on"},
    "plot": {"batch", "metric", "on"},
    "status": {"batch", "on"},
}


@pytest.mark.parametrize("view", READS)
def test_a_view_is_made_anew_for_what_it_reads(view: str) -> None:
    cache = ViewCache(ScreenQueries())
    cache.view(view, START)
    assert {name for name, other in OTHERS.items() if not cache.has(view, replace(START, **other))} == READS[view]


def test_a_field_that_is_replaced_is_not_read() -> None:
    reads: set[str] = set()
    state: Any = TracedState(START, reads)
    assert replace(replace(state, batch=64), at="").batch == 64
    assert reads == set()
    assert pinned(replace(state, pin="tpu_v4@b2")) is not None
    assert "batch" not in reads
    assert state == START
    assert reads >= {*State.__struct_fields__}


@pytest.mark.parametrize("model", ["resnet50", "llama3_8b:decode"])
def test_a_tree_is_the_same_wherever_its_cursor_stands(model: str) -> None:
    cache, state = ViewCache(ScreenQueries()), parse(model)
    tree = cache.views(state).tree
    assert cache.views(replace(state, at=tree.rows[-1].key)).tree is tree
