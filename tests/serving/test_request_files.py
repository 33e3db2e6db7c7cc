"""Files of requests as others publish them, and what a prefix cache keeps of their prompts."""

import json
import math
from pathlib import Path

import pytest

from analysis.serving.request_load import BLOCK, Load, read_load, read_load_file, reuse_prefixes
from hardware.base.errors import RequestError

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:15:51.2224670,879,55
"""
# Requests of Mooncake's synthetic trace: ms, tokens of prompt and answer, ranges of blocks.
MOONCAKE = (
    (3437, 2752, 35, [range(708, 714)]), (12709, 30575, 8, [range(1145, 1205)]),
    (14514, 30397, 2, [range(1145, 1202), range(1339, 1342)]), (16669, 14624, 37, [range(1440, 1469)]),
    (16801, 2754, 50, [range(708, 713), range(1469, 1470)]),
    (17317, 15151, 5, [range(1440, 1468), range(1472, 1474)]),
)  # fmt: skip


def mooncake() -> Load:
    lines = (
        {"timestamp": at, "input_length": prompt, "output_length": output, "hash_ids": [i for r in ranges for i in r]}
        for at, prompt, output, ranges in MOONCAKE
    )
    return read_load("\n".join(map(json.dumps, lines)), "trace.jsonl")


def test_traces_of_azure_have_the_times_of_their_stamps() -> None:
    load = read_load(AZURE, "azure.csv")
    assert load.arrival_s.tolist() == pytest.approx([0.0, 4.314579, 4.541877], abs=1e-6)
    assert (load.prompt.tolist(), load.output.tolist()) == ([374, 396, 879], [44, 109, 55])


def test_prompts_that_begin_alike_are_in_the_cache() -> None:
    load = mooncake()
    reused = reuse_prefixes(load, math.inf)
    assert reused.cached.tolist() == [0, 0, 57 * BLOCK, 0, 5 * BLOCK, 28 * BLOCK]
    assert (reused.cached + reused.prompt).tolist() == load.prompt.tolist()
    assert load.arrival_s[-1] == 17.317


def test_a_smaller_cache_never_holds_more() -> None:
    load = mooncake()
    held = [int(reuse_prefixes(load, blocks * BLOCK).cached.sum()) for blocks in (0, 30, 66, 100, 1000)]
    assert held == sorted(held)
    assert held[0] == 0
    assert held[-1] == 90 * BLOCK
    same = '{"timestamp": 0, "input_length": 512, "output_length": 1, "hash_ids": [1]}'
    assert reuse_prefixes(read_load(f"{same}\n{same}", "trace.jsonl"), math.inf).prompt.tolist() == [512, 1]


QWEN = '{"chat_id": 1, "timestamp": %g, "input_length": 40, "output_length": 5, "hash_ids": [1, 2, 3]}'
BURST = "Timestamp,Model,Request tokens,Response tokens\n5,ChatGPT,472,18\n45,ChatGPT,1087,230\n"


@pytest.mark.parametrize(
    ("text", "arrivals_s", "prompts"),
    [
        ('{"timestamp": 500, "input_length": 9, "output_length": 5}', [0.5], [9]),  # without hashes
        ("\n".join(QWEN % at for at in (61.5, 62.5)), [61.5, 62.5], [40, 1]),  # seconds, blocks of 16 tokens
        (BURST, [5.0, 45.0], [472, 1087]),
    ],
)
def test_traces_have_units_and_blocks_of_their_own(text: str, arrivals_s: list[float], prompts: list[int]) -> None:
    load = reuse_prefixes(read_load(text, "trace"), math.inf)
    assert (load.arrival_s.tolist(), load.prompt.tolist()) == (arrivals_s, prompts)


def test_a_table_may_have_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "requests.csv").write_bytes(b"\xef\xbb\xbfarrival_s,prompt_tokens,output_tokens\r\n0,100,5\r\n")
    assert read_load_file(str(tmp_path / "requests.csv"), 0).prompt.tolist() == [100]


@pytest.mark.parametrize("line", ['{"timestamp": 0}', "{}", '{"timestamp": "a", "input_length": 1}', "{"])
def test_a_wrong_line_is_named(line: str) -> None:
    good = '{"timestamp": 0, "input_length": 5, "output_length": 5, "hash_ids": [1]}'
    with pytest.raises(RequestError, match="line 2: expected a time"):
        read_load(f"{good}\n{line}\n", "trace.jsonl")
