"""Models whose layers keep a state, and other recent configurations: sizes as published, a state that does not grow."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from analysis.estimate.peak_memory import cache_bytes
from analysis.model.ir.workload import Workload
from analysis.model.transformer import hf_config
from analysis.model.transformer.config import DEFAULTS, Config, StepSettings
from analysis.model.transformer.transformer_workload import build
from hardware.precision import parse
from lab.closed_form import macs, size
from tests.sampling import for_each

# config.json of model cards, with the parameters that they state in units of 1e9.
RECENT: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("recent_configurations.json").read_text())
SMALL = {
    "hidden": 128, "layers": 4, "heads": 4, "ffn": 256, "vocab": 500, "state_heads": 8, "state_groups": 2,
    "state_keys": 16, "state_values": 32, "state_rank": 8,
}  # fmt: skip
MIXERS = ("mamba", "mamba2", "lightning", "delta", "kda", "rwkv7", "short_conv")


def step(config: Config, phase: str, tp: int = 1) -> Workload:
    sequence, kv, output = DEFAULTS[phase]
    return build("model", config, StepSettings(phase=phase, sequence=sequence, kv=kv, output=output, tp=tp))


def total_macs(workload: Workload, **lengths: int) -> float:
    return float((workload.operators.macs @ workload.value_at(batch=1, **lengths)).sum())


def test_attention_to_chosen_tokens_does_not_grow_beyond_them() -> None:
    config = hf_config.parse_config(RECENT["DeepSeek-V3.2"]["config"] | {"index_n_heads": 64, "index_head_dim": 128})
    near, far = (msgspec.structs.replace(config, index_topk=topk) for topk in (2048, 1 << 20))
    few, all_tokens = (total_macs(step(each, "decode"), kv=32768) for each in (near, far))
    indexer = config.layers * 64 * 128 * 32769
    latent = config.layers * config.heads * (2 * config.kv_lora + config.rotary)
    assert all_tokens - few == pytest.approx(latent * (32769 - 2048), rel=1e-3)
    assert few > indexer
    assert any("index_topk" in note for note in config.notes)


@for_each("name", RECENT)
def test_a_published_configuration_has_its_published_parameters(name: str) -> None:
    raw = RECENT[name]["config"]
    config = hf_config.parse_config(raw.get("text_config", raw))
    assert size(config).parameters == pytest.approx(RECENT[name]["billions"] * 1e9, rel=0.005)


@for_each("mixer", MIXERS)
@for_each("pattern", ["ra", "pM", "RMA"])
def test_graphs_of_state_layers_have_the_closed_form(mixer: str, pattern: str) -> None:
    config = Config(**SMALL, mixer=mixer, pattern=pattern)
    for phase in ("prefill", "decode"):
        workload, (sequence, kv, _) = step(config, phase), DEFAULTS[phase]
        run = StepSettings(phase=phase, sequence=sequence, kv=kv)
        assert workload.parameters == size(config).parameters
        assert total_macs(workload, sequence=sequence, kv=kv) == macs(config, run)


def test_the_state_does_not_grow_with_tokens_and_the_cache_beside_it_does() -> None:
    widths = parse("fp16").widths
    for pattern, growth in (("R", 1), ("rrra", 1.5)):
        workload = step(Config(**SMALL, mixer="mamba2", pattern=pattern), "decode")
        short, long = (cache_bytes(workload.bound(kv=kv), 1, widths) for kv in (1000, 3000))
        assert (long > short * growth) if growth > 1 else (long == short > 0)


def test_a_state_in_fp32_takes_four_bytes_a_value_at_any_precision() -> None:
    configs = {is_fp32: Config(**SMALL, mixer="mamba2", pattern="R", state_fp32=is_fp32) for is_fp32 in (False, True)}
    held = {
        name: {
            is_fp32: cache_bytes(step(config, "decode"), 1, parse(name).widths) for is_fp32, config in configs.items()
        }
        for name in ("fp16", "fp32")
    }
    m = configs[True].mixer_sizes()
    state_values = configs[True].layers * m.heads * m.keys * m.values
    assert held["fp16"][True] - held["fp16"][False] == 2 * state_values
    assert held["fp32"][True] == held["fp32"][False]


def test_prefill_writes_the_state_and_does_not_read_it() -> None:
    config = Config(**SMALL, mixer="delta", pattern="R")
    read = {}
    for phase in ("prefill", "decode"):
        workload = step(config, phase)
        states = {t for t, name in enumerate(workload.tensors.name) if name.endswith("state_cache")}
        amounts = workload.operators.in_numel @ workload.value_at(batch=1)
        read[phase] = sum(amounts[i] for i, t in enumerate(workload.operators.in_tensor) if t in states)
    assert read == {"prefill": 0, "decode": config.layers * 8 * 16 * 32}


def test_devices_share_the_heads_of_a_state() -> None:
    config = Config(**SMALL, mixer="mamba2", pattern="p")
    whole, half = (total_macs(step(config, "decode", tp), sequence=1, kv=2048) for tp in (1, 2))
    assert half < whole * 0.6
