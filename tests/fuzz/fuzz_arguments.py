"""Command lines: every verb with altered words. Each prints its answer, or refuses in one line with the right code."""

import contextlib
import io
import json
import shlex
from collections.abc import Iterator
from random import Random
from unittest import mock

from hardware import file_access
from hardware.precision import NAMES
from hwexplorer import cli, registry, settings, state
from tests.fuzz import mutate

CASE_SECONDS = 20.0
STDERR_MAX = 4_000  # a list of all that is allowed may stand in it
ONLY_READ = ("capture", "validate")  # starts processes; takes half a minute: read, not run
SEEDS = tuple(
    tuple(shlex.split(line))
    for line in (
        "mlp@b8,fp16/t4",
        "conv2d --ascii --theme light",
        "compare mlp --on cpu,gpu --batch 8 --precision fp16 --level detailed --baseline cpu",
        "compare conv2d@b4/t4,tpu_v4 --format json --execution fused --layout channels_last",
        "tree resnet_block --on t4 --format json",
        "events conv2d --on kpu --node conv -o out.csv",
        "why gemm:M=64,N=64,K=64 --on kpu_t256:50w --format md",
        "why mlp@int8 --on tpu",
        "plot mlp --plot batch --on t4 --format csv",
        "mapping layer_norm --on t4 --format html",
        "concurrency pooling",
        "roofline mlp --on cpu",
        "energy attention_head --on t4 --batch 2",
        "memory depthwise_separable --on t4 -o out.json",
        "edp transformer_block --on t4",
        "partition resnet_block --format csv",
        "sweep mlp --batches 1,8 --precisions fp32,int8 --on t4",
        "explain conv2d cpu gpu --metric energy",
        "pareto mlp --models mlp,conv2d --batches 1,2 --on t4",
        "search mlp --max-energy 100mJ --max-latency 5ms --min-throughput 1k/s --on t4 --sort energy",
        "rank mlp conv2d --on t4 --sort latency",
        "advise mlp --on t4 --aim latency",
        'check mlp --rule "energy(t4) < 500mJ" --on t4',
        "cost mlp --on t4,cpu --electricity 0.2 --carbon 300 --lifetime 3 --duty 50% --price t4=900 --hourly cpu=1.5",
        "report mlp --on t4 -o out.html",
        "models --format json",
        "devices --format csv",
        "device jetson_agx_orin:30w",
        "coefficients --on t4 --precision fp16",
        "capture net.py:make --input 1x3x8x8 --run-code --time-limit 5 --memory-limit 2GiB",
        "validate --data mine.csv --served",
        "--help",
        "--version",
        "compare --help",
    )
)
WORDS = (
    *registry.names(),
    *("mlp", "conv2d", "gemm:M=1,N=1,K=1", "layer_norm:B=2", "mlp@b2", "net.py:make", "net.onnx", "x.pt2", "hf:."),
    *("cpu", "gpu", "t4", "t4:70w", "h100_sxm", "tpu_v4,t4", "T4", "nvidia t4"),
    *(NAMES + settings.EXECUTIONS + settings.LAYOUTS + state.PLOTS + state.METRICS),
    *("--on", "--batch", "--precision", "--format", "-o", "--node", "--image-size", "--kv", "--sequence", "--input"),
    *("--rule", "--sort", "--level", "--metric", "--batches", "--strict", "--run-code", "--devices-dir", "--baseline"),
    *("json", "csv", "md", "html", "text", "out.json", "0", "1x3x8x8", "5ms", "2GiB", "1e999", "50%", "--", "-", "-h"),
    *("latency(t4) < 1s and energy(cpu) > 0", "edp", "not", "(((", "fits(t4)", "1 < 2"),
)  # fmt: skip


def mutations(random: Random) -> Iterator[list[str]]:
    while True:
        words = list(random.choice(SEEDS))
        for _ in range(1 + int(random.expovariate(0.8))):
            _change(random, words)
        yield [_as_argument(word) for word in words]


def _change(random: Random, words: list[str]) -> None:
    at = random.randrange(len(words) + 1)
    kind = random.randrange(6)
    if kind == 0:
        words.insert(at, random.choice(WORDS))
    elif kind == 1 and at < len(words):
        del words[at]
    elif kind == 2:
        words[at : at + 1] = [random.choice(WORDS)]
    elif kind == 3 and at < len(words):
        words.insert(random.randrange(len(words)), words[at])
    elif at < len(words):
        words[at] = next(mutate.texts(random, (words[at],), WORDS))


def _as_argument(word: str) -> str:
    """What a shell can hand over: bytes, of which none is 0."""
    return word.replace("\0", "").encode("utf-8", "replace").decode("utf-8", "surrogateescape")


def survive(words: list[str]) -> bool:
    if {"--all", "--workers"} & set(words):
        return False
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), mock.patch.object(file_access, "write"):
        code = _code(words)
    said = err.getvalue()
    assert code in (0, 1, 2), code
    assert "internal error" not in said, said[:500]
    assert len(said) < STDERR_MAX, f"refused at length: {said[:200]}"
    if code:
        *picture, line = said.splitlines()
        assert line.startswith("hwexplorer: "), said[:500]
        assert len(picture) in (0, 2), said[:500]  # a broken rule, and what in it
        assert all(each.isprintable() for each in (*picture, line)), said[:500]
    if code == 2:
        assert out.getvalue() == "", "refused, yet printed"
    elif "json" in words and not code and out.getvalue().startswith("{"):
        json.loads(out.getvalue(), parse_constant=_no_number)
    return code == 0


def _code(words: list[str]) -> int:
    if words and words[0] in ONLY_READ:
        try:
            cli.parse(words)
        except cli.RequestError as error:
            return cli._complain(str(error), 2)
        except SystemExit as ended:  # how argparse ends --help
            return int(ended.code or 0)
        return 0
    try:
        return cli.main(words)
    except SystemExit as ended:
        return int(ended.code or 0)


def _no_number(name: str) -> None:
    raise AssertionError(f"{name} in JSON")
