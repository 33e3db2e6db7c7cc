"""Wrong input: exit code 2, one line on standard error with the nearest match, nothing written, no traceback."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hardware.base.text import exact_amount, parse_limit
from hwexplorer import registry
from hwexplorer.state import reading_note
from tests.headless.conftest import Call
from tests.sampling import for_each

Refused = Callable[..., str]

# Words, and what the line must say.
CASES: list[tuple[tuple[str, ...], str]] = [
    (("compare", "resnet5"), "did you mean resnet50"),
    (("compare", "resnet50,vgg16"), "hwexplorer models resnet50 vgg16 --on DEV"),
    (("resnet5",), "did you mean resnet50"),
    (("tree", "vit_c_16"), "vit_b_16"),
    (("compare", "nothing_like_it"), "hwexplorer models"),
    (("compare", ""), "empty"),
    (("compare", "  "), "empty"),
    (("", "--format", "json"), "empty"),
    (("compare",), "model"),
    (("compre", "resnet18"), "did you mean compare"),
    (("plto", "resnet18"), "unknown verb 'plto'"),
    (("compare", "resnet18", "resnet50"), "resnet50"),
    (("compare", "resnet18", "--bogus"), "--bogus"),
    (("compare", "resnet18", "--bat", "8"), "--bat"),
    (("compare", "resnet18", "--on", "h10_sxm"), "did you mean h100_sxm"),
    (("compare", "resnet18", "--on", "gpuu"), "did you mean gpu"),
    (("compare", "resnet18", "--on", "l4", "--price", "l4=1e308"), "'1e308' is too large"),
    (("compare", "./resnet50"), "a file ends in .onnx"),
    (("compare", "../resnet50"), "a file ends in .onnx"),
    (("compare", "runs/resnet50.onnx"), "no folder runs"),
    (("compare", "resnet50.onnx@b8/l4"), "no file resnet50.onnx"),
    (("compare", "runs/mine.json"), "why A.json B.json"),
    (("validate", "."), ".: cannot be read (is a folder)"),
    (("compare", "resnet18", "--on", "../l4"), "'../l4': a device file is TOML"),
    (("compare", "resnet18", "--on", ""), "no device"),
    (("compare", "resnet18", "--on", ",,"), "no device"),
    (("compare", "resnet18", "--on", ":"), "unknown device"),
    (("compare", "resnet18", "--on", "gpu,gpu"), "twice"),
    (("compare", "resnet18", "--on", "gpu,h100_sxm"), "same device"),
    (("compare", "resnet18", "--on", "gpu:30w"), "no power modes"),
    (("compare", "resnet18", "--on", "jetson_agx_orin:31w"), "did you mean 30w"),
    (("compare", "resnet18", "--baseline", "tpv"), "did you mean tpu"),
    (("compare", "resnet18", "--baseline", ""), "unknown device"),
    (("tree", "resnet18", "--on", "cpu,gpu"), "one device"),
    (("tree", "resnet18", "--on", ""), "one device"),
    (("devices", "h10_sxm"), "did you mean h100_sxm"),
    (("compare", "resnet18", "--precision", "fp23"), "did you mean fp32"),
    (("compare", "resnet18", "--precision", "FP61"), "did you mean fp16"),
    (("compare", "resnet18", "--execution", "egaer"), "did you mean eager"),
    (("compare", "resnet18", "--layout", "nhwc"), "did you mean nchw"),
    (("compare", "resnet18", "--format", "jsn"), "did you mean json"),
    (("compare", "resnet18", "--level", "detail"), "did you mean detailed"),
    *(
        (("compare", "resnet18", f"--batch={text}"), "1 to 4096")
        for text in ("0", "-1", "abc", "1e3", "5000", "", "8.0", "1_0", "٣", "9" * 5000, "8\n", "nan", "0x8", "+-1")
    ),
    *((("compare", "resnet18", f"--image-size={text}"), "1 to 8192") for text in ("0", "-32", "abc", "20000", "224px")),
    (("compare", "vit_b_16", "--image-size", "100"), "nearest: 96"),
    (("compare", "gemm:M=99999999999999999999"), "whole number"),
    (("tree", "resnet18", "--node", "layer1.0.conv9"), "did you mean layer1.0.conv"),
    (("show", "events", "resnet18", "--node", "downsample.0"), "downsample.0"),  # the ending of three
    (("why", "resnet18", "--node", "nowhere"), "hwexplorer tree"),
    (("compare", "resnet18@b0"), "batch"),
    (("compare", "resnet18@b8,fp61"), "did you mean fp16"),
    (("compare", "resnet18@b8,b9"), "twice"),
    (("compare", "resnet18/gpuu"), "did you mean gpu"),
    (("compare", "resnet18?sort=sahre"), "did you mean share"),
    (("compare", "resnet18?srt=share"), "did you mean sort"),
    (("compare", "resnet18?pin=@b8"), "expected a device"),
    (("compare", "%ff"), "UTF-8"),
    (("compare", "x" * 200_000), "100,000"),
    (("search", "resnet18"), "needs a limit"),
    (("compare", "transformer_block:width=7,heads=3"), "7 values are no multiple of 3 heads"),
    (("search", "resnet18", "--max-energy", "100mV"), "accepted"),
    (("search", "resnet18", "--max-energy", "0J"), "more than 0"),
    (("search", "resnet18", "--max-latency", "5"), "'5' has no unit"),
    (("compare", "resnet18?limits=L<5"), "'5' has no unit"),
    (("search", "resnet18", "--front", "--models", ","), "no model"),
    (("models", "--on", "l4", "--family", "audio"), "unknown family"),
    (("models", "resnet18x", "--on", "l4"), "unknown model"),
    (("compare", "resnet18", "--price", "h100_sxm"), "DEVICE=USD"),
    (("compare", "resnet18", "--price", "raspberry_pi_5=80"), "not among the devices"),
    (("compare", "resnet18", "--electricity", "cheap"), "does not start with a number"),
    (("compare", "resnet18", "--duty", "150%"), "at most 1"),
    (("why", "resnet18", "cpu", "gpu", "--metric", "power"), "unknown metric"),
    (("why", "resnet18", "cpu", "gpux"), "unknown device"),
    (("why", "resnet18", "cpu", "gpu@b9x"), "unknown setting"),
    (("why", "resnet18", "--metric", "energy"), "compare two sides"),
    (("sweep",), "needs a model"),
    (("sweep", "resnet18", "--batches", ","), "no batch"),
    (("sweep", "resnet18", "--batches", "0"), "out of range"),
    (("sweep", "resnet18", "--batches", "a"), "not a whole number"),
    (("sweep", "resnet18", "--precisions", "fp31"), "did you mean"),
    (("sweep", "resnet18", "--workers", "2"), "--all"),
    (("sweep", "--all", "--format", "md"), "csv or json"),
    (("sweep", "--all", "--on", "gpux"), "unknown device"),
    (("compare", "resnet18", "--on", "l4*2"), "2 devices share a load"),
    (("compare", "llama3_8b:serve,in=256,out=32,rate=5", "--on", "l4", "--batch", "8"), "has no batch"),
    (("compare", "llama3_8b:serve,in=256,out=32,rate=5", "--on", "l4", "--kv", "8"), "has no --kv"),
    (("compare", "llama3_8b:serve,in=256,out=32,rate=5,dp=2", "--on", "l4*3"), "does not divide 3"),
    (("compare", "llama3_8b:serve,rate=5", "--on", "l4,l4*2", "--level", "operator"), "--level applies to one batch"),
    (("compare", "llama3_8b:serve,in=256,out=32,requests=/nowhere.csv", "--on", "l4"), "nowhere.csv: cannot be read"),
    (("tree", "llama3_8b:serve,rate=5,tp=3", "--on", "l4"), "tp=3 does not divide"),
    (("tree", "resnet18", "--load", "rate=5", "--on", "l4"), "resnet18 has no load"),
    (("tree", "llama3_8b", "--load", "rat=5", "--on", "l4"), "did you mean rate"),
    (("tree", "llama3_8b@rate=5,rate=6", "--on", "l4"), "rate is given twice: 5 and 6"),
    (("search", "resnet18", "--on", "l4", "--max-ttft", "1s"), "--max-ttft needs a load"),
    (("sweep", "llama3_8b:serve,in=256,out=32,rate=4", "--on", "l4", "--batches", "1,2"), "applies to one batch"),
    (("show", "load", "resnet18", "--on", "l4"), "resnet18 has no load; e.g. llama3_8b:serve"),
    (("show", "load", "llama3_8b:request", "--on", "l4"), "llama3_8b:request has no load; e.g. llama3_8b:serve"),
    (("show", "load", "bert_base", "--on", "l4"), "bert_base has no load; e.g. llama3_8b:serve"),
    (("show", "kernels", "resnet18", "--node", "layer9"), "unknown node 'layer9'"),
    (("show", "kernels", "resnet18", "--on", "h10"), "did you mean"),
    (("show", "memory", "resnet18", "--node", "conv1"), "unknown option '--node'"),
    (("tree", "edp", "resnet18", "--on", "cpu,gpu"), "one device"),
    (("show", "structure", "resnt18"), "did you mean"),
    (("check", "resnet18", "--rule", "energy(gpu) ~ 1J"), "expected a figure"),
    (("check", "resnet18"), "no rule is given"),
    (("check", "resnet18", "--rule", "energy(gpux) < 1J"), "unknown device"),
    (("compare", "resnet18", "--foramt", "json"), "unknown option '--foramt': did you mean --format?"),
    (("search", "resnet18", "--top", "3"), "unknown option '--top': tune design has it (`hwexplorer search --help`"),
    (("devices", "l4", "t4"), "unexpected word 't4'"),
    (("devices", "l4", "--save", "x.toml"), "unknown option '--save'"),
    (("compare", "my_own_net_7"), "`hwexplorer models` lists all names"),
    (("compare", "llama3_8b:chat"), "llama3_8b has no phase 'chat'; its phases: prefill, decode, request, serve"),
    (("memory", "resnet18"), "memory is a section: hwexplorer show memory"),
    (("show",), "show needs a section"),
    (("show", "kernls", "conv2d"), "did you mean kernels"),
    (("show", "wavefront", "resnet18", "--on", "cpu,kpu", "--at", "2"), "expected 0 to 1"),
    (("models", "resnut18"), "did you mean resnet18"),
    (("devices", "--on", "gpu"), "--on"),
    (("sweep", "conv2d", "--batch", "1,8"), "sweep --batches"),
    (("why", "conv2d", "nothing_like_it"), "unknown model"),
    (("compare", "resnet18", "--on", "h100_sxm{units*1e308}"), "is too large"),
    (("compare", "resnet18", "--on", "h100_sxm{clock_hz=1e9,clock_hz=2e9}"), "clock_hz is set twice"),
    (("compare", "resnet18", "--on", "h100_sxm", "--sequence", "5"), "resnet18 has no --sequence"),
]


@for_each(("words", "says"), CASES)
def test_one_line_and_exit_code_two(refused: Refused, words: tuple[str, ...], says: str) -> None:
    line = refused(*words)
    assert says in line
    assert len(line) < 500


@for_each("verb", sorted(registry.names()))
def test_every_verb_refuses_an_unknown_option(refused: Refused, verb: str) -> None:
    assert re.search("--no-such-option| is given ", refused(*registry.full_name(verb).split(), "--no-such-option"))


HOSTILE = ["a\0b", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "[bold]x", "a\rb\nc", "\u202egnp", "\udcff", "漢字", "𝕣"]


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_names_that_would_steer_a_terminal(refused: Refused, tmp_path: Path, name: str) -> None:
    refused("compare", name)
    refused("compare", "resnet18", "--on", name)
    refused("compare", "resnet18", "--baseline", name)
    refused("tree", "resnet18", "--node", name)
    refused("compare", "resnet18", "--precision", name)
    refused("compare", "resnet18", "--batch", name)
    refused("compare", "resnet18", "--devices-dir", str(tmp_path / name))
    refused("compare", "resnet18", "-o", str(tmp_path / "missing" / name) + ".json")
    refused("compare", "resnet18", "-o", str(tmp_path / name))
    refused(name, "resnet18")
    assert list(tmp_path.iterdir()) == []


def test_arguments_without_end(refused: Refused) -> None:
    huge = "x" * 90_000
    for words in (("compare", huge), ("tree", "resnet18", "--node", huge), ("compare", "resnet18", "--on", huge)):
        assert len(refused(*words)) < 500
    refused("compare", "resnet18", "--on", ",".join(f"d{i}" for i in range(5000)))


def test_an_internal_error_is_one_line_too(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> str:
        raise ZeroDivisionError("of\nall things")

    monkeypatch.setattr("hwexplorer.answer.Answer.to_text", fail)
    done = call("compare", "resnet18")
    assert done.code == 1
    assert done.out == ""
    assert done.err == (
        "hwexplorer: internal error: ZeroDivisionError: of all things (HWEXPLORER_DEBUG=1 shows where)\n"
    )
    monkeypatch.setenv("HWEXPLORER_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        call("compare", "resnet18")


# --- device files -----------------------------------------------------------------------------------------


def test_a_malformed_device_file_is_named_once_and_harms_no_other(
    refused: Refused, call: Call, device_file: Callable[..., Path]
) -> None:
    folder = str(device_file("my_gpu", (r"tdp_w = .*\n", "")))  # the kinds: tests/hardware/test_catalog.py
    line = refused("compare", "resnet18", "--on", "gpu,my_gpu", "--devices-dir", folder)
    assert "my_gpu.toml: facts.tdp_w is missing" in line
    listed = call("devices", "--devices-dir", folder)
    assert listed.code == 0
    assert listed.out.count("my_gpu.toml") == listed.out.count("\n!") == 1
    assert "h100_sxm" in listed.out
    assert call("compare", "resnet18", "--devices-dir", folder).code == 0


def test_a_device_of_the_catalogue_is_not_replaced(
    refused: Refused, document: Callable[..., Any], device_file: Callable[..., Path]
) -> None:
    folder = device_file("h100_sxm")
    assert "h100_sxm" in refused("compare", "resnet18", "--devices-dir", str(folder))
    one, two = device_file("my_gpu", folder="one"), device_file("my_gpu", folder="two")
    both = ("--devices-dir", str(one), "--devices-dir", str(two))
    assert "already defined" in refused("devices", "my_gpu", *both)
    assert "already defined" in document("devices", *both)["errors"][0]
    assert len(document("compare", "resnet18", *both)["rows"]) == 4  # the others keep working


def test_a_folder_of_devices_that_is_none(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for name in ("missing", "file", ""):
        assert "folder" in refused("devices", "--devices-dir", str(tmp_path / name) if name else "/dev/null")


def test_a_device_of_ones_own(call: Call, document: Callable[..., Any], device_file: Callable[..., Path]) -> None:
    folder = device_file("my_gpu", (r'name = "NVIDIA T4"', 'name = "My GPU"'))
    device_file("bad_gpu", (r"tdp_w = .*\n", ""))
    listed = document("devices", "--devices-dir", str(folder))
    mine = next(d for d in listed["devices"] if d["id"] == "my_gpu")
    assert mine["name"] == "My GPU"
    assert [line for line in listed["errors"] if "bad_gpu.toml" in line] == listed["errors"]
    assert len(listed["errors"]) == 1
    found = document("compare", "resnet18", "--on", "t4,my_gpu", "--devices-dir", str(folder))
    assert [row["device"] for row in found["rows"]] == ["t4", "my_gpu"]
    for words in (("tree", "resnet18", "--on", "my_gpu"), ("why", "resnet18", "--on", "my_gpu"), ("devices", "my_gpu")):
        done = call(*words, "--devices-dir", str(folder))
        assert done.code == 0
        assert "My GPU" in done.out
    # Beside it the bad one is refused by name only.
    assert call("compare", "resnet18", "--on", "my_gpu,bad_gpu", "--devices-dir", str(folder)).code == 2


def test_a_device_with_a_hostile_name(call: Call, device_file: Callable[..., Path]) -> None:
    name = r'name = "=cmd|\u001b[31m [bold]漢字 <b>|x"'
    folder = str(device_file("my_gpu", (r'name = "NVIDIA T4"', name)))
    for form in ("text", "csv", "md"):
        done = call("compare", "resnet18", "--on", "my_gpu,cpu", "--devices-dir", folder, "--format", form)
        assert done.code == 0
        assert "\x1b" not in done.out
        assert (r"\[bold\]漢字" if form == "md" else "[bold]漢字") in done.out
    markdown = call("compare", "resnet18", "--on", "my_gpu,cpu", "--devices-dir", folder, "--format", "md").out
    rows = [line for line in markdown.splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in rows}) == 1
    table = call("compare", "resnet18", "--on", "my_gpu,cpu", "--devices-dir", folder, "--format", "csv").out
    assert ",'=cmd|" in table


def test_a_near_name_is_said_without_the_list_of_all(refused: Refused) -> None:
    line = refused("compare", "resnet18", "--precision", "fp12")
    assert "did you mean fp32" in line
    assert " more)" in line
    assert refused("compare").startswith("hwexplorer: no model is given (`hwexplorer compare --help`")


@pytest.mark.parametrize(("name", "model"), [("resnet", "resnet50"), ("bert/l4@b8", "bert_base"), ("ResNet-50", "")])
def test_a_name_that_leaves_the_size_open_says_which_is_taken(name: str, model: str) -> None:
    note = f"{name.partition('/')[0]} is taken as {model} "
    assert reading_note(name).startswith(note) if model else not reading_note(name)


@pytest.mark.parametrize(("value", "unit", "text"), [(0.005, "s", "5ms"), (1e9, "byte", "1GB"), (0.05, "USD", "0.05")])
def test_a_written_limit_reads_back_equal(value: float, unit: str, text: str) -> None:
    assert exact_amount(value, unit) == text
    assert parse_limit(exact_amount(value / 3, unit), unit) == value / 3
