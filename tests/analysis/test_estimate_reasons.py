"""Reasons: one line each, with the numbers of the figures beside them; and nodes found by name."""

import re

import grid
import numpy as np
import pytest

from analysis.estimate.causes import causes
from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from analysis.estimate.tree_figures import find_node, operators_of, tree
from analysis.wording import attention_parts, kernel_reason, operator_reason, subgraph_reason, time_reason
from hardware.base.errors import RequestError
from hardware.base.text import quantity
from hardware.device_catalog import load_device
from hardware.execute import BOUNDS
from hwexplorer.reports.tree.tree import node
from tests.models import load_once
from tests.sampling import for_each

MODELS = ("mobilenet_v2", "swin_t", *grid.BLOCKS)


@for_each("name", grid.representatives())
def test_every_node_has_a_one_line_reason(name: str) -> None:
    for turn, model in enumerate(MODELS):
        result = grid.run(model, name, 8, "int8", grid.MODES[turn % 2])
        figures = tree(result)
        reasons = [operator_reason(figures, i) for i in range(result.workload.n_operators)]
        reasons += [subgraph_reason(figures, s) for s in range(len(result.partition.id))]
        reasons.append(time_reason(result))
        for reason in reasons:
            assert reason.strip() == reason
            assert reason
            assert "\n" not in reason
            assert not re.search(r"\b(nan|inf|None|True|False)\b", reason), reason
            assert "{" not in reason


@pytest.mark.parametrize("name", grid.DEFAULTS)
def test_numbers_in_a_kernel_reason_are_those_of_the_kernel(name: str) -> None:
    seen = set()
    for model, batch, precision in (("resnet18", 1, "fp32"), ("vit_b_16", 64, "bf16"), ("mobilenet_v2", 512, "int8")):
        for mode in grid.MODES:
            result = grid.run(model, name, batch, precision, mode)
            run = result.run
            for k in range(result.demand.n_kernels):
                reason, bound = kernel_reason(result, k), BOUNDS[run.bound[k]]
                seen.add(bound)
                names = (bound, "on-chip") if bound == "memory" else (bound,)  # memory of the chip, or beside it
                assert reason.startswith(tuple(f"{name} bound" for name in names))
                if bound == "power":
                    assert quantity(result.device.power_limit_w, "W") in reason
                    assert quantity(run.kernel_s[k], "s") in reason
                    assert run.kernel_s[k] > run.unthrottled_s[k]
                elif bound == "launch":
                    assert quantity(run.busy_s[k], "s") in reason
                    overhead = run.overhead_s[k] >= max(run.kernel_compute_s[k], run.kernel_memory_s[k])
                    dispatched = run.kernel_s[k] == pytest.approx(result.device.dispatch_s * result.kernel_runs)
                    assert overhead or dispatched, "the host is the limit"
                else:
                    assert quantity(run.kernel_compute_s[k], "s") in reason
                    assert quantity(run.kernel_memory_s[k], "s") in reason
                    terms = {"compute": run.kernel_compute_s[k], "memory": run.kernel_memory_s[k]}
                    assert terms[bound] >= max(terms.values()) * (1 - 1e-12), "the larger term is named as the bound"
                    assert f"{run.utilization[k] * 100:.0f} %" in reason
    assert len(seen) >= 3, seen


@pytest.mark.parametrize("name", grid.DEFAULTS)
def test_mapping_sentences_count_what_ran(name: str) -> None:
    result = grid.run("resnet50", name, 8, "fp16")
    figures = tree(result)
    for i, kind in enumerate(result.workload.operators.kind):
        sentence = operator_reason(figures, i)
        if kind == "conv":
            g, m, n, k = (round(float(x)) for x in result.demand.gemm[:, i])
            assert g == 1
            assert f"{m:,} x {n:,} x {k:,} matrix product" in sentence
        if result.demand.macs[i] > 0:
            tiling = result.run.mapping.tiling
            assert f"{tiling.blocks[i]:,.0f} " in sentence
            assert result.plan.matrix in sentence or result.plan.vector_mac in sentence
            assert 1 <= tiling.units[i] <= total_units(result)
            assert tiling.waves[i] * total_units(result) >= tiling.blocks[i]


def total_units(result: Estimate) -> float:
    device = result.device
    return device.units * (device.arrays_per_unit if device.architecture == "tpu" else 1.0)


def test_separate_and_fused_are_told_apart() -> None:
    eager, fused = (tree(grid.run("conv2d", "h100_sxm", 512, "fp32", mode)) for mode in grid.MODES)
    assert "a kernel of its own" in operator_reason(eager, 2)
    assert "inside the kernel of conv" in operator_reason(fused, 2)
    tensor = 512 * 64 * 56 * 56 * 4.0
    assert f"{quantity(2 * tensor, 'byte')} in and out" in operator_reason(eager, 2)
    assert "3 kernels, 6 activation transfers" in subgraph_reason(eager, 0)
    assert "3 operators fused in one kernel" in subgraph_reason(fused, 0)


@pytest.mark.parametrize("name", grid.DEFAULTS)
def test_the_cause_of_most_of_the_time_adds_up(name: str) -> None:
    result = grid.run("resnet50", name, 8, "fp16")
    time_s = causes(result).sum_over(slice(None)).time_s
    assert time_reason(result).startswith(f"{time_s.max() / result.latency_s * 100:.0f} % of the time ")


@for_each("mode", grid.MODES)
@for_each("model", ["resnet18", "swin_t", "inception_v3", "attention_head", "densenet121"])
def test_every_node_is_found_by_its_id(model: str, mode: str) -> None:
    result = grid.run(model, "h100_sxm", 1, "fp16", mode)
    root = node(result)
    assert find_node(result, "") == ("model", 0)
    assert find_node(result, result.workload.name) == ("model", 0)
    assert len(operators_of(result, "")) == result.workload.n_operators
    for s, subgraph in enumerate(root.children):
        assert find_node(result, subgraph.id) == ("subgraph", s)
        assert operators_of(result, subgraph.id).tolist() == list(result.partition.members[s])
        for i, operator in zip(result.partition.members[s], subgraph.children, strict=True):
            if operator.id not in result.partition.id:
                assert find_node(result, operator.id) == ("operator", i)
                assert operators_of(result, operator.id).tolist() == [i]


def test_nodes_are_found_by_module_path_and_unique_ending() -> None:
    result = grid.run("resnet18", "h100_sxm")
    path = result.workload.operators.path
    assert find_node(result, "layer3.1.bn2") == ("operator", path.index("layer3.1.bn2"))
    assert find_node(result, "layer2.0.downsample.1") == ("operator", path.index("layer2.0.downsample.1"))
    result = grid.run("vit_b_16", "h100_sxm")
    path = result.workload.operators.path
    full = "encoder.layers.encoder_layer_3.mlp.0"
    assert find_node(result, "encoder_layer_3.mlp.0") == ("operator", path.index(full))


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("layer3.1.conv22", "layer3.1.conv2"),
        ("layr2.0.conv1", "layer2.0.conv1"),
        ("fcc", "fc"),
        ("LAYER4.1.CONV1", "layer4.1.conv1"),
    ],
)
def test_unknown_node_names_the_nearest(wrong: str, near: str) -> None:
    result = grid.run("resnet18", "h100_sxm")
    with pytest.raises(RequestError) as raised:
        find_node(result, wrong)
    message = str(raised.value)
    assert "\n" not in message
    assert f"unknown node {wrong!r}" in message
    assert near in message


def test_an_ambiguous_ending_is_an_error_not_a_guess() -> None:
    with pytest.raises(RequestError):
        find_node(grid.run("resnet18", "h100_sxm"), "conv2")


def test_attention_says_its_products_and_its_softmax() -> None:
    result = estimate(load_once("llama3_8b:decode,kv=4095"), load_device("h100_sxm"), Scenario(2, "bf16"))
    at = result.workload.operators.kind.index("attention")
    first, softmax, last = attention_parts(result, at)
    each = 2 * 32 * 4096 * 128  # sequences, heads, tokens, width
    assert result.demand.macs[at] == 2 * each
    assert quantity(each, "MAC") in first
    assert quantity(each, "MAC") in last
    assert softmax.startswith("softmax")
    assert attention_parts(result, result.workload.operators.kind.index("linear")) == ()


@pytest.mark.parametrize("model", ["llama3_8b:decode,kv=64", "llama3_8b:request,in=8,out=3"])
def test_a_step_says_what_its_host_takes(model: str) -> None:
    """The first operator of a step bears it: nobody is to think that an embedding takes 2 ms."""
    result = estimate(load_once(model), load_device("h100_sxm"), Scenario(2, "bf16", "vllm"))
    steps = 2 if "request" in model else 1  # the prompt makes the first token
    host = steps * (result.runtime.call_s.value + 2 * result.runtime.sequence_s.value)
    first = int(result.demand.kernel[np.flatnonzero(result.demand.calls.begins)[-1]])
    assert f"{quantity(host, 's')} of it what vLLM takes between calls" in kernel_reason(result, first)
    assert "between calls" not in kernel_reason(result, first + 1)
