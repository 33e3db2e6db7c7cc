"""Agents: what the protocol answers, and that each number of an answer is the command line's."""

import io
import json
import random
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hwexplorer.cli import main
from hwexplorer.commands.mcp import TOOLS, count_tokens, round_figure, serve
from tests.sampling import every

MODELS = ("resnet18", "vit_b_16", "yolov8n", "llama3_8b:decode,kv=512", "bert_base", "qwen3_8b:prefill,in=256")
DEVICES = (
    "h100_sxm",
    "l4",
    "t4",
    "xeon_8490h",
    "jetson_agx_orin",
    "tpu_v4",
    "apple_m4_pro_gpu",
    "rtx_4090",
    "kpu_t256",
)


def ask(*requests: Any) -> list[dict[str, Any]]:
    """Return the replies to requests, or to raw lines."""
    lines = [one if isinstance(one, bytes) else json.dumps({"jsonrpc": "2.0", **one}).encode() for one in requests]
    out = io.BytesIO()
    serve(lines, out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    (reply,) = ask({"id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
    return dict(reply["result"])


def numbers(value: Any) -> set[float]:
    """Return every number of a document, rounded as answers round them."""
    if isinstance(value, dict | list):
        return set().union(*map(numbers, value.values() if isinstance(value, dict) else value), set())
    return {round_figure(float(value))} if isinstance(value, int | float) else set()


def questions() -> list[tuple[str, dict[str, Any]]]:
    """Return 50 sizing questions, drawn from models, devices and kinds."""
    draw, asked = random.Random(50), list[tuple[str, dict[str, Any]]]()
    kinds = ["check"] * 14 + ["compare"] * 16 + ["why"] * 8 + ["search"] * 4 + ["serve"] * 4 + ["models", "devices"] * 2
    for kind in kinds:
        model, devices = draw.choice(MODELS), draw.sample(DEVICES, draw.randint(2, 3))
        asked.append(
            (kind, {
                "check": {"model": model, "on": devices[0], "rule": [
                    f"latency < {draw.choice((1, 5, 20))}ms", f"energy < {draw.choice((10, 900))}mJ", "memory < 8GB"]},
                "compare": {"model": model, "on": devices, "batch": draw.choice((1, 4, 16))},
                "why": {"model": model, "on": devices[: draw.randint(1, 2)]},
                "search": {"model": draw.choice(MODELS[:3]), "on": devices[:2], "max_latency": "10ms"},
                "serve": {"model": f"llama3_8b:serve,in=256,out=64,rate={draw.choice((1, 4))}", "on": devices[0]},
                "models": {"find": draw.choice(("llama", "resnet"))},
                "devices": {"find": draw.choice(("jetson", "rtx"))},
            }[kind])
        )  # fmt: skip
    return asked


@every(5)
def test_fifty_answers_have_the_numbers_of_the_command_line(nth: int, capsys: pytest.CaptureFixture[str]) -> None:
    counts, listed_tools = [], ask({"id": 1, "method": "tools/list"})[0]["result"]["tools"]
    outputs = {tool["name"]: tool["outputSchema"]["properties"] for tool in listed_tools}
    for tool, arguments in questions()[::nth]:
        result = call(tool, **arguments)
        text = result["content"][0]["text"]
        assert result["isError"] or result["structuredContent"] == json.loads(text)
        if result["isError"]:  # a load on a device without software for it: one line
            assert (tool, text.count("\n")) == ("serve", 0)
            continue
        answer = json.loads(text)
        assert result["structuredContent"] == answer
        assert answer.keys() <= outputs[tool].keys()
        assert main([*shlex.split(answer["command"])[1:], "--format", "json"]) in (0, 1)
        document = json.loads(capsys.readouterr().out)
        main([*shlex.split(answer["command"])[1:], "--format", "csv"])
        cells = capsys.readouterr().out.replace("\n", ",").split(",")
        listed = {round_figure(float(cell)) for cell in cells if cell and cell.strip("0123456789.e+-") == ""}
        assert not numbers(answer.get("rows", [])) - numbers(document) - listed, (tool, arguments)
        main(shlex.split(answer["command"])[1:])
        printed = capsys.readouterr().out
        if tool not in ("models", "devices"):
            assert all(line in printed for line in (answer["verdict"], *answer.get("notes", []))), answer
        counts.append(count_tokens(text))
    assert len(counts) >= 48 // nth
    assert max(counts) <= 500
    print(f"{len(counts)} answers: {max(counts)} tokens at most, {sum(counts) / len(counts):.0f} on average")


def test_more_tokens_give_more_and_fewer_keep_the_verdict() -> None:
    short, usual, long = (
        json.loads(call("devices", find="rtx", tokens=n)["content"][0]["text"]) for n in (60, 500, 20_000)
    )
    assert short["verdict"] == usual["verdict"] == long["verdict"]
    assert len(short["rows"]) < len(usual["rows"]) < len(long["rows"])
    assert usual["left_out"] == len(long["rows"]) - len(usual["rows"])


def test_wrong_questions_are_answered_and_end_nothing() -> None:
    for tool, arguments, says in (
        ("compar", {}, "did you mean compare"), ("compare", {"modl": "resnet50"}, "did you mean model"),
        ("compare", {"model": "resnet5", "on": "l4"}, "did you mean resnet50"), ("compare", [1], "must be a table"),
        ("compare", {"model": "mlp", "on": "h10_sxm"}, "did you mean h100"), ("devices", {"find": "qqqqqq"}, "unknown"),
        ("check", {"model": "mlp", "on": "l4", "rule": "energy < 5"}, "no unit"), ("check", {}, "field `model`"),
        ("compare", {"model": "mlp", "batch": "many"}, "batch must be"), ("compare", {"model": "a.py:f"}, "no file"),
    ):  # fmt: skip
        result = ask({"id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})[0]["result"]
        assert result["isError"], (tool, arguments)
        assert says in result["content"][0]["text"]
    lines = (b"not json\n", b"[1]\n", b"\n", b'{"id": 5, "method": "ping"}\n', b"[" * 100_000 + b"\n", b"\xff\n")
    assert [reply["error"]["code"] for reply in ask(*lines)] == [-32700, -32600, -32600, -32600, -32700]
    unknown, started, alive = ask(
        {"id": "a", "method": "tools/lst"}, {"method": "notifications/initialized"},
        {"id": 2, "method": "initialize", "params": {"protocolVersion": "1999-01-01"}}, {"id": 3, "method": "ping"},
    )  # fmt: skip
    assert unknown["error"]["code"] == -32601
    assert "tools/list" in unknown["error"]["message"]
    assert started["result"]["capabilities"] == {"tools": {}}
    assert alive == {"jsonrpc": "2.0", "id": 3, "result": {}}


def test_code_of_a_model_does_not_run(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\ndef make(): pass\n")
    result = call("compare", model=f"{file}:make", on="l4")
    assert "an agent runs no code" in result["content"][0]["text"]
    assert not (tmp_path / "ran").exists()


def test_each_tool_is_listed_with_a_schema_of_its_arguments() -> None:
    (reply,) = ask({"id": 1, "method": "tools/list"})
    tools = {tool["name"]: tool["inputSchema"] for tool in reply["result"]["tools"]}
    answers = [tool["outputSchema"] for tool in reply["result"]["tools"]]
    assert all(schema["properties"].keys() >= {"verdict", "columns", "rows", "runs"} for schema in answers)
    assert tools.keys() == TOOLS.keys()
    assert all(schema["type"] == "object" and not schema["additionalProperties"] for schema in tools.values())
    assert all(one["description"] for schema in tools.values() for one in schema["properties"].values())
    assert count_tokens(json.dumps(reply)) < 7000


def test_requests_of_the_newest_revision_have_their_version_with_them() -> None:
    meta = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
    found, listed, wrong = ask(
        {"id": 1, "method": "server/discover", "params": meta},
        {"id": 2, "method": "tools/list", "params": meta},
        {"id": 3, "method": "ping", "params": {"_meta": {"io.modelcontextprotocol/protocolVersion": "2031-01-01"}}},
    )
    assert "2026-07-28" in found["result"]["supportedVersions"]
    assert listed["result"]["resultType"] == "complete"
    assert listed["result"]["ttlMs"] > 0
    assert wrong["error"]["code"] == -32022


def test_work_of_a_call_is_bounded_before_it_starts() -> None:
    for arguments, says in (
        ({"model": "a" * 100_000, "on": "l4"}, "at most 4000 letters"),
        ({"model": "mlp", "on": [f"l4{{clock_hz*1.{i}}}" for i in range(800)]}, "at most 4000 letters"),
        ({"model": "mlp", "on": ",".join(["l4"] * 500)}, "and 64 devices"),
        ({"model": "mlp", "on": "kpu_t256{prices=/etc/passwd}"}, "files only of the folder"),
        ({"model": "llama3_8b:serve,requests=/etc/passwd", "on": "l4"}, "files only of the folder"),
    ):
        result = call("compare", **arguments)
        assert result["isError"]
        assert says in result["content"][0]["text"]


def test_a_cancelled_call_ends_and_others_are_answered(tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text("[coefficients]\n")
    slow = {"name": "search", "arguments": {"model": "llama3_8b:decode", "max_latency": "1s"}}
    quick = {"name": "compare", "arguments": {"model": "mlp", "on": f"kpu_t256{{prices={prices}}}"}}
    requests: tuple[dict[str, Any], ...] = (
        {"id": 1, "method": "tools/call", "params": slow},
        {"id": "two", "method": "tools/call", "params": quick},
        {"method": "notifications/cancelled", "params": {"requestId": 1}},
        {"id": 3, "method": "ping"},
    )
    lines = "".join(json.dumps({"jsonrpc": "2.0", **request}) + "\n" for request in requests)
    command = [sys.executable, "-m", "hwexplorer", "mcp", "--files", str(tmp_path)]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True, timeout=120)
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert [reply["id"] for reply in replies] == [3, "two"]
    assert "has no price" in replies[1]["result"]["content"][0]["text"]
