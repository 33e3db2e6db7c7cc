"""The outline of a model: whatever it is divided by, every operator is in it once, and keys name what they hold."""

import numpy as np
import pytest
from grid import run

from analysis.estimate.estimate import Estimate
from analysis.estimate.tree_figures import BYS, Branch, covers, draw_outline, find_node, members_of, operators_of
from hardware.base.errors import RequestError
from hwexplorer import engine
from hwexplorer.state import parse
from hwexplorer.views.plain import TreeIndex
from hwexplorer.views.tree_view import tree
from tests.sampling import for_each

MODELS = (
    "resnet50", "mobilenet_v2", "vit_b_16", "swin_t", "densenet121", "regnet_y_400mf", "efficientnet_b0", "llama3_8b",
    "inception_v3", "conv2d", "resnet18:train",
)  # fmt: skip


def _branches(result: Estimate, by: str, apart: tuple[str, ...] = ()) -> dict[str, Branch]:
    branches = [branch for _, branch in draw_outline(result, by, apart).walk()]
    assert len({branch.key for branch in branches}) == len(branches)
    return {branch.key: branch for branch in branches}


@for_each("model", MODELS)
@for_each("by", BYS)
def test_every_level_holds_every_operator_once(model: str, by: str) -> None:
    for mode in ("eager", "compiled", "fused"):
        result = run(model, "h100_sxm", 1, "fp16", mode)
        for key, branch in _branches(result, by).items():
            assert np.array_equal(np.sort(branch.members), np.sort(operators_of(result, key)))
            inside = [child for child in branch.children if child.kind not in ("host", "part")]
            if inside:
                below = np.concatenate([child.members for child in inside])
                assert np.array_equal(np.sort(below), np.sort(branch.members))


def test_repeats_are_merged_and_stages_are_not() -> None:
    blocks = _branches(run("resnet50", "h100_sxm"), "module")
    assert [blocks[f"layer{i}"].count for i in (1, 2, 3, 4)] == [3, 4, 6, 3]
    assert blocks["layer3.0-5.conv2"].count == 6
    assert blocks["layer3.0.downsample.0"].count == 1
    assert _branches(run("llama3_70b", "h100_sxm"), "module")["layers.0-79.mlp.up_proj"].count == 80
    inverted = _branches(run("mobilenet_v2", "h100_sxm"), "module")
    assert inverted["features.2-17.conv.1.0"].type == "depthwise_conv+batch_norm+relu6"


def test_blocks_are_shown_one_by_one_when_asked() -> None:
    result = run("resnet50", "h100_sxm")
    blocks = _branches(result, "module", ("layer3",))
    assert [child.key for child in blocks["layer3"].children] == [f"layer3.{i}" for i in range(6)]
    assert "layer2.0-3.conv1" in blocks  # the others stay merged
    together = np.concatenate([child.members for child in blocks["layer3"].children])
    assert np.array_equal(np.sort(together), np.sort(operators_of(result, "layer3")))


def test_a_pattern_holds_what_it_names() -> None:
    assert covers("layer3.0-5.conv2", "layer3.4.conv2/relu")
    assert covers("layer3.0-5.conv2/relu", "layer3.4.conv2/relu")
    assert not covers("layer3.0-3.conv2", "layer3.4.conv2/relu")
    assert not covers("layer3.0-5.conv2/bn", "layer3.4.conv2/relu")
    assert not covers("layer3.0-5.conv2/relu", "layer3.4.conv2.x/relu")
    assert covers("block1-0-3", "block1-2.f/f")  # a number after a dash is a number
    assert not covers("layer", "layer3.4.conv2/relu")
    assert members_of(run("resnet18", "h100_sxm"), "nowhere") is None
    with pytest.raises(RequestError, match="unknown node"):
        find_node(run("resnet18", "h100_sxm"), "nowhere.at.all")


def test_the_heaviest_path_of_a_language_model_ends_in_its_mlp() -> None:
    state = parse("llama3_70b@fp16?by=module")
    found = TreeIndex(tree(state)).heaviest("")
    assert ".mlp." in found
    result = engine.result(state)
    assert len(operators_of(result, found)) == 80
    assert TreeIndex(tree(state)).share("lm_head") < 0.02


def test_a_kind_is_a_place_that_reports_take() -> None:
    result = run("resnet18", "h100_sxm", 1, "fp16", "fused")
    assert {result.workload.operators.kind[i] for i in operators_of(result, "kind:conv")} == {"conv"}
