"""Traces of requests (`requests=FILE` of a name): every one is served, or refused in one line."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.fuzz import mutate
from tests.fuzz.running import is_answered

HEAD = "arrival_s,prompt_tokens,output_tokens"
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50,396,109\n"
MOONCAKE = '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}\n'
SEEDS = (
    f"{HEAD}\n0,100,10\n0.5,200,20\n0.5,1,1\n", f"{HEAD},note\n1e3,2000,3,x\n2e3,1,5000,\n", AZURE, MOONCAKE * 3
)  # fmt: skip
WORDS = (*HEAD.split(","), "nan", "inf", "-1", "1e308", "9" * 400, "10000000", '"', ",,", "\r\n", "\0", "٣")


def mutations(random: Random) -> Iterator[bytes]:
    return mutate.files(random, [seed.encode() for seed in SEEDS], WORDS)


def survive(data: bytes) -> bool:
    Path("mine.csv").write_bytes(data)
    return is_answered(["show", "load", "gpt2:serve,requests=mine.csv", "--on", "l4"], "loads")
