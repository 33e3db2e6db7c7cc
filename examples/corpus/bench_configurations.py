"""The configurations of language models that are read.

`python -m examples.corpus.bench_configurations` prints a table of their parameters beside those that their cards state,
the cache of a token, the state of a sequence, and a token's FLOPs."""

import json
from pathlib import Path
from typing import Any

from analysis.model.transformer import hf_config
from analysis.model.transformer.config import Config, StepSettings
from tests.closed_form import macs, size

KV = 2048  # tokens in the cache
RECENT = Path(__file__).parents[2] / "tests" / "workload" / "recent_configurations.json"
_BYTES = 2  # of a number in bf16


def main() -> None:
    print(*lines(), sep="\n")


def lines() -> list[str]:
    """Return the table, a line for each configuration."""
    head = ["| configuration | type | parameters G | card G | cache KB/token | state MB | GFLOP/token |"]
    rows = json.loads(RECENT.read_text()).items()
    parsed = [_line(name, row, hf_config.parse_config(_text_part(row["config"]))) for name, row in rows]
    return [*head, "|---|---|--:|--:|--:|--:|--:|", *parsed]


def _text_part(raw: dict[str, Any]) -> dict[str, Any]:
    return raw.get("text_config", raw)


def _line(name: str, row: dict[str, Any], config: Config) -> str:
    cached = (
        config.kv_lora + config.rotary if config.kv_lora else config.kv_heads * (config.head_dim + config.value_dim)
    )
    states = config.state_heads * config.state_keys * config.state_values * config.count("mixer")
    flops = 2 * macs(config, StepSettings(phase="decode", sequence=1, kv=KV))
    cells = (
        f"{size(config).parameters / 1e9:.3f}", f"{row['billions']:.3f}",
        f"{cached * config.count('attention') * _BYTES / 1e3:.1f}", f"{states * _BYTES / 1e6:.1f}",
        f"{flops / 1e9:.2f}",
    )  # fmt: skip
    return f"| {name} | {row['config']['model_type']} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
