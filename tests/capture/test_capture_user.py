"""A user's model: what is captured, and the one line for each way it can go wrong, with nothing left behind."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.model import store
from analysis.model.ir import workload
from analysis.model.ir.workload import Workload
from analysis.model.model_errors import CaptureError, ModelError, ModelSpecError, UnknownModelError
from analysis.model.names import targets
from analysis.model.names.model_ref import user_target
from analysis.model.process import child_job as job_module
from analysis.model.reading_budget import ProcessLimits
from hardware.base.errors import RequestError
from hwexplorer import cli, engine
from hwexplorer.state import State, format, parse
from tests.sampling import first
from tests.waiting import never_endless

OWN = Path(__file__).with_name("own_models.py")
LIMITS = ProcessLimits(seconds=600, memory_bytes=8 << 30)
INPUT = "1x3x16x16"
pytestmark = pytest.mark.usefixtures("quick_captures")
ALONE = pytest.mark.usefixtures("captures_alone")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("HWEXPLORER_CACHE_DIR", str(folder))
    monkeypatch.setattr(engine._MODELS, "allowed", {})
    engine.reset()
    return folder


def captured(factory: str, inputs: str = INPUT, limits: ProcessLimits = LIMITS) -> Workload:
    return store.load(f"{OWN}:{factory}({inputs})", limits=limits)


def line(comment: str) -> int:
    return next(i for i, text in enumerate(OWN.read_text().splitlines(), 1) if text.endswith(f"# {comment}"))


# --- what works -------------------------------------------------------------------------------------------


def test_a_chain_of_products_beside_weights_without_memory() -> None:
    """1 x 64, 64 x 32, 32 x 8 in the cheapest order: 64 * 32 + 32 * 8."""
    w = captured("chain", "")
    assert float((w.operators.macs @ w.value_at(batch=1)).sum()) == 2304 + 2e10


def test_a_module_of_ones_own() -> None:
    w = captured("Net")
    assert w.name == "own_models.py:Net"
    assert w.parameters == 3 * 8 * 9 + 8 + 8 * 4 + 4
    assert w.inputs[0].shape == ("batch", 3, 16, 16)
    assert float((w.operators.macs @ w.value_at(batch=5)).sum()) == 5 * (14 * 14 * 8 * 27 + 32)


@pytest.mark.parametrize("text", ["[1x8,1x16", "[]", "xs=[1x8,1x16]", "(1x8,1x16)", "{a=1x8}"])
def test_lists_of_tensors_are_refused_with_advice(text: str) -> None:
    with pytest.raises(ModelSpecError, match=r"is not a tensor: the factory can return lists"):
        targets.parse_input(text)


def test_lists_of_tensors_come_from_the_factory() -> None:
    w = captured("of_list", "")
    assert [item.shape[0] for item in w.inputs] == ["batch"] * 2
    assert float((w.operators.macs @ w.value_at(batch=3)).sum()) == 3 * 4 * 24


def test_packed_sequences_are_called_that() -> None:
    with pytest.raises(CaptureError, match="a packed sequence cannot be captured; give its module the padded tensor"):
        captured("Packed", "2x5x16,2:int64")


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        ("Adjacency", "sparse tensors cannot be captured; give a dense one, or its indices"),
        ("Densities", "sparse tensors cannot be captured; give a dense one, or its indices"),
        ("Nested", "nested tensors cannot be captured; give a padded"),
        ("Forces", "gradients inside forward cannot be"),
        ("Tangents", "gradients inside forward cannot be"),
    ],
)
def test_what_no_export_holds_is_refused_with_advice(factory: str, said: str) -> None:
    with pytest.raises(CaptureError, match=said):
        captured(factory, "4x3")


def test_a_forward_that_collects_its_arguments() -> None:
    shape = ("batch", 3, 16, 16)
    assert [item.shape for item in captured("Starred").inputs] == [shape]
    assert [item.shape for item in captured("starred", "").inputs] == [shape, shape]
    assert [item.name for item in captured("starred_by_name", "").inputs] == ["x", "more"]


def test_tensors_in_objects_go_in_and_come_out() -> None:
    w = captured("in_an_object", "")
    assert [item.shape for item in w.inputs] == [("batch", 5, 8), ("batch", 5)]
    assert w.operators.macs.sum() > 0


def test_a_length_is_no_constant_and_a_mask_needs_no_values() -> None:
    assert captured("Tokens", "4x6x16").inputs[0].shape == ("batch", 6, 16)


def test_a_batch_up_to_which_the_code_goes_one_way() -> None:
    w = captured("Rows")
    assert (w.inputs[0].shape, workload.largest_batch(w)) == (("batch", 3, 16, 16), 63)
    state = State(model=f"{OWN}:Rows({INPUT})", batch=64)
    engine.keep(state, w)
    with pytest.raises(RequestError, match="captured for batches up to 63"):
        engine.workload(state)


def test_nodes_of_a_graph_are_no_batch() -> None:
    w = captured("messages", "")
    assert [item.shape for item in w.inputs] == [(5, 16), (2, 9)]
    assert any("its inputs are one graph" in note for note in w.notes)
    assert float((w.operators.macs @ w.value_at(batch=1)).sum()) == 5 * 16 * 8


def test_loops_taken_out_of_a_graph_leave_its_edges() -> None:
    """How many there are depends on data: none is taken for one, and an edge from each node to itself is added."""
    w = captured("Loops", "5x16,2x9:int64")
    assert any("no edge from a node to itself" in note for note in w.notes)
    assert float((w.operators.macs @ w.value_at(batch=1)).sum()) == 5 * 16 * 8
    joined = w.operators.out_tensor[w.operators.out_ptr[w.operators.kind.index("cat")]]
    assert float(w.tensors.numel[joined] @ w.value_at(batch=1)) == 2 * (9 + 5)


def test_a_cache_goes_in_and_comes_out() -> None:
    """One token after six; what a model keeps is among its results."""
    w = captured("remembering", "")
    assert [item.shape for item in w.inputs] == [("batch", 2, 4), ("batch", 6, 4)]
    assert float((w.operators.macs @ w.value_at(batch=3)).sum()) == 3 * 2 * 16
    assert w.operators.kind.count("cat") == 1


def test_the_factory_may_give_the_inputs_and_print() -> None:
    assert captured("with_inputs", "").inputs[0].shape == ("batch", 3, 16, 16)
    assert captured("flood").n_operators == 6


@ALONE
def test_the_factory_may_keep_a_process_and_weights_take_no_memory() -> None:
    assert captured("leaves_a_process").parameters > 10 << 30
    running = subprocess.run(["ps", "-eo", "stat,args"], capture_output=True, text=True, check=True).stdout
    assert not [row for row in running.splitlines() if "sleep 86399" in row and not row.startswith("Z")]


def test_weights_that_the_constructor_reads_are_there() -> None:
    assert captured("RealValues").n_operators == 7


def test_a_model_that_fixes_its_batch_is_captured_at_it() -> None:
    w = captured("Fixed", "4x3x8x8")
    assert w.inputs[0].shape == (4, 3, 8, 8)
    assert any(note.startswith("captured at batch 4 alone") for note in w.notes)
    assert workload.fixed_batch(w) == 4
    assert (w.operators.macs @ w.value_at(batch=1) == w.operators.macs @ w.value_at(batch=9)).all()
    assert workload.fixed_batch(captured("Net", "4x3x8x8,batch=none")) == 1


NET_MACS = 14 * 14 * 8 * 27 + 32


@pytest.mark.parametrize(
    ("factory", "inputs", "names"),
    [
        ("Named", "1x3x16x16,1x4", {"x", "scale"}),
        ("by_name", "", {"x", "scale"}),
        ("of_dict", "", {"batch_image", "batch_weights_1"}),
        ("compiled", INPUT, {"x"}),
    ],
)
def test_inputs_by_name_in_dictionaries_and_lists(factory: str, inputs: str, names: set[str]) -> None:
    w = captured(factory, inputs)
    assert {item.name for item in w.inputs} == names
    assert all(item.shape[0] == "batch" for item in w.inputs)
    assert float((w.operators.macs @ w.value_at(batch=3)).sum()) == 3 * NET_MACS


def test_what_is_exported_already_and_what_learns_its_sizes() -> None:
    w = captured("exported", "")
    assert (w.parameters, workload.fixed_batch(w)) == (260, 2)
    assert float((w.operators.macs @ w.value_at(batch=2)).sum()) == 2 * NET_MACS
    assert captured("lazy").parameters == 8 * 27 + 8 + 8 * 14 * 14 * 4 + 4


def test_modules_that_hide_what_they_compute_are_named() -> None:
    with pytest.raises(CaptureError, match=r"PartlyScripted\.part is a TorchScript module; capture the nn.Module"):
        captured("PartlyScripted", "1x8")
    with pytest.raises(CaptureError, match=r"quantised\.0 holds packed integer weights; .* --precision int8"):
        captured("quantised", "1x8")
    with pytest.raises(CaptureError, match=r"missing a required argument: 'scale'; .* \(model, \{name: value\}\)"):
        captured("Named")


def test_numpy_in_a_forward_pass_is_said() -> None:
    with pytest.raises(CaptureError, match=rf"own_models.py:{line('numpy')} in forward: NumPy cannot be captured"):
        captured("Numpy")


@ALONE
def test_code_that_closes_the_pipe_is_ended() -> None:
    with pytest.raises(CaptureError, match="closes_everything closed the pipe for its answer"):
        captured("closes_everything")


def test_a_model_in_which_nothing_computes_says_so() -> None:
    with pytest.raises(CaptureError, match=r"own_models\.py:unchanged has no operator that works on its inputs"):
        captured("unchanged", "1x8")


def test_an_operator_without_a_rule_is_listed_and_lowers_coverage() -> None:
    w = captured("Unknown")
    assert [w.operators.target[i] for i in range(w.n_operators) if not w.operators.has_rule[i]] == [
        "own_models.shaped.default"
    ]
    assert w.operators.kind.count("unknown") == 1


# --- what goes wrong --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("factory", "inputs", "words"),
    [
        ("Branch", INPUT, [f"own_models.py:{line('branch')} in forward", "branch", "torch.where"]),
        ("Item", INPUT, [f"own_models.py:{line('item')} in forward", "item"]),
        ("Mask", INPUT, [f"own_models.py:{line('mask')} in forward", "fixed size"]),
        ("Bad", INPUT, [f"own_models.py:{line('constructor')} in __init__", "ValueError: no such width"]),
        ("Net", "1x4x16x16", ["in forward", "to have 3 channels, but got 4"]),
        ("Net", f"{INPUT},1x2", ["2 inputs given", "--input"]),
        ("Net", "", ["--input 1x3x224x224"]),
        ("Two", INPUT, ["1 input given", "'t'"]),
        ("Width", INPUT, ["needs arguments", "'width'"]),
        ("leave", INPUT, [f"own_models.py:{line('exit')} in leave", "sys.exit(3)"]),
        ("leave_hard", INPUT, ["ended with code 5"]),
        ("no_module", INPUT, ["gave a dict, not a torch.nn.Module"]),
        ("asks", INPUT, ["EOFError"]),
        ("forty_gigabytes", INPUT, [f"own_models.py:{line('allocation')}", "memory", "--memory-limit"]),
        ("Shapeless", INPUT, ["own_models.shapeless", "register_fake"]),
        ("Nett", INPUT, ["has no Nett", "did you mean Net"]),
    ],
)
def test_one_line_with_the_cause(
    factory: str, inputs: str, words: list[str], cache: Path, request: pytest.FixtureRequest
) -> None:
    if factory == "forty_gigabytes":
        request.getfixturevalue("captures_alone")
    with pytest.raises(CaptureError) as caught:
        captured(factory, inputs)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 400
    assert all(word in message for word in words), message
    assert not cache.exists() or not list(cache.iterdir())


@ALONE
@pytest.mark.parametrize("factory", first(["forever", "Looping"], 1))
def test_an_endless_loop_is_stopped(factory: str) -> None:
    with pytest.raises(CaptureError, match="longer than 4 s"):
        captured(factory, limits=ProcessLimits(seconds=4, memory_bytes=8 << 30))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nowhere/net.py:Net(1)", ["no folder nowhere"]),
        (f"{OWN.with_name('own_model.py')}:Net(1)", ["did you mean own_models.py"]),
        (str(OWN), ["name the factory", f"{OWN}:Net"]),
        (f"{OWN}:Net(0x3)", ["not a shape", "1x3x224x224"]),
        (f"{OWN}:Net(1x3:int46)", ["did you mean int64"]),
        (f"{OWN}:Net(1x3,batch=x)", ["batch dimension 'x'"]),
        ("no.such:Net(1)", ["no module no.such"]),
        ("gema3:e4b", ["no module gema3", "did you mean gemma3"]),
        (str(OWN.parent) + ".py:Net(1)", ["no file"]),
        ("missing.pt2", ["no file missing.pt2"]),
    ],
)
def test_wrong_names_say_so_before_anything_runs(text: str, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_module.ModelCapture, "start", lambda self: pytest.fail("started"))
    with pytest.raises((ModelSpecError, UnknownModelError)) as caught:
        store.load(text)
    assert "\n" not in str(caught.value)
    assert all(word in str(caught.value) for word in words), caught.value


@pytest.mark.parametrize(
    "text", ["resnet50", "gemm:M=8", "gemm:8x8x8", "hf:some/folder", "hf:x.py", "resnet50@b8/h100_sxm", "gemm:8"]
)
def test_other_names_are_no_targets(text: str) -> None:
    assert user_target(text) is None


# --- the cache --------------------------------------------------------------------------------------------


def test_the_cache_knows_contents_inputs_and_imported_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "layers.py").write_text("from torch import nn\n\ndef layer():\n    return nn.Linear(4, 4)\n")
    (tmp_path / "net.py").write_text("import layers\n\ndef make():\n    return layers.layer()\n")
    text = f"{tmp_path}/net.py:make(1x4)"
    assert store.load(text).parameters == 20
    assert store.is_ready(text)
    assert not store.is_ready(f"{tmp_path}/net.py:make(1x1x4)")
    (tmp_path / "layers.py").write_text("from torch import nn\n\ndef layer():\n    return nn.Linear(4, 8)\n")
    assert not store.is_ready(text)
    assert store.load(text).parameters == 40
    (tmp_path / "net.py").write_text("import layers\n\ndef make():\n    return layers.layer()  # other\n")
    assert not store.is_ready(text)
    monkeypatch.chdir(tmp_path)
    assert store.load("net:make(1x4)").parameters == 40


# --- never without asking ---------------------------------------------------------------------------------


def test_a_state_string_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "ran"
    file = tmp_path / "net.py"
    file.write_text(f"open({str(mark)!r}, 'w')\nfrom torch import nn\n\ndef make():\n    return nn.Linear(4, 4)\n")
    link = format(State(model=f"{file}:make(1x4)", batch=2, devices=("tpu_v4",)))
    state = parse(link)
    assert state.model == f"{file}:make(1x4)"
    assert not engine.is_ready(state)
    for act in (engine.capture, engine.capture_job, engine.workload):
        with pytest.raises(RequestError, match=r"captur"):
            act(state)
    for words in (["compare", link], ["tree", link], [link], ["capture", link], ["compare", state.model]):
        assert cli.main(words) == 2
    assert not mark.exists()
    assert cli.main(["compare", link, "--run-code"]) == 0
    assert mark.exists()
    mark.unlink()
    assert cli.main(["tree", link]) == 0  # stored by now
    assert not mark.exists()


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(OWN, tmp_path / "mine.py")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["compare", "mine.py:Net", "--input", INPUT, "--batch", "4"]) == 0
    assert "mine.py:Net" in capsys.readouterr().out
    assert cli.main(["capture", "mine.py:Unknown", "--input", INPUT, "--strict"]) == 1
    out = capsys.readouterr()
    assert "own_models.shaped.default" in out.out
    assert out.err.startswith("hwexplorer: mine.py:Unknown: 1 of 7 operators have no cost rule")
    assert cli.main(["compare", "mine.py:Unknown", "--input", INPUT, "--strict"]) == 1
    assert cli.main(["capture", "resnet18", "--strict"]) == 0
    assert cli.main(["compare", "resnet18", "--input", INPUT]) == 2
    assert cli.main(["compare", "mine.py:Net(1x3x16x16)", "--input", INPUT]) == 2
    assert cli.main(["capture", "mine.py:Net", "--input", INPUT, "-o", "net.msgpack.gz"]) == 0
    capsys.readouterr()
    assert cli.main(["compare", "net.msgpack.gz", "--format", "json"]) == 0
    assert '"model": "mine.py:Net"' in capsys.readouterr().out
    (tmp_path / "net.msgpack.gz").write_bytes(b"broken")
    engine.reset()
    assert cli.main(["compare", "net.msgpack.gz"]) == 2
    assert "no captured model" in capsys.readouterr().err


def test_a_fixed_batch_is_the_only_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", f"{OWN}:Fixed", "--input", "4x3x8x8"]
    assert cli.main(words) == 0  # taken unasked
    assert ", batch 4, bf16" in capsys.readouterr().out
    assert cli.main([*words, "--batch", "2"]) == 2
    assert "batch 4 is the only one" in capsys.readouterr().err
    assert cli.main([*words, "--batch", "4"]) == 0
    capsys.readouterr()
    for verb in ("sweep", "advise", "compare", "why"):  # nor do others make figures up
        assert cli.main([verb, *words[1:], "--on", "h100_sxm", "--format", "json"]) == 0
        told = capsys.readouterr().out
        assert {int(batch) for batch in re.findall(r'"batch": (\d+)', told)} <= {4}
        assert not re.search(r"batch (?!4\b)\d", told)
    assert cli.main(["sweep", *words[1:], "--batches", "1,4"]) == 2


def test_capturing_from_python_is_one_line() -> None:
    code = """
import hwexplorer, sys
assert 'torch' not in sys.modules
import torch
from torch import nn
model = nn.Sequential(nn.Linear(8, 4), nn.ReLU())
w = hwexplorer.capture(model, torch.zeros(1, 8))
assert model.training and model[0].weight.device.type == 'cpu'
print(repr(w))
print(w.macs, w.coverage, w.inputs[0].shape)
try:
    hwexplorer.capture(nn.Linear(3, 4), torch.zeros(1, 8))
except Exception as error:
    print(type(error).__name__, str(error).count(chr(10)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.splitlines() == [
        "<Sequential: 36.0 parameters, 32.0 MAC, 3 operators, inputs batchx8>",
        "32.0 1.0 ('batch', 8)",
        "CaptureError 0",
    ]
    assert done.stderr == ""


def test_every_error_of_a_target_is_a_model_error() -> None:
    for text in ("x.py:y(", "x.py:y)", "x.py:1", "a b.py:Net", ".py:x", "x.pt2", "\0.pt2", "x" * 5000 + ".pt2"):
        try:
            assert targets.parse(text) is None or store.ready(text) is None
        except ModelError as error:
            said = str(error)
            assert "\n" not in said


def test_a_message_without_end_is_read_at_once() -> None:
    blame = pytest.importorskip("analysis.capture.torch_settings")
    for text in ("a" * 300_000, "a." * 150_000, "a::b " * 60_000, ("a" * 400 + "\n") * 1000):
        with never_endless():
            assert len(blame.explain(RuntimeError(text), "importing it")) < 400


def test_pairs_of_whole_numbers_beside_features_are_edges_whatever_their_name(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\nclass Net(torch.nn.Module):\n  def __init__(self):\n    super().__init__()\n"
        "    self.l = torch.nn.Linear(8, 4)\n  def forward(self, x, e):\n    x = self.l(x)\n"
        "    return torch.zeros_like(x).index_add(0, e[1], x[e[0]])\n"
        "def make():\n  return Net(), (torch.randn(10, 8), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]]))\n"
    )
    assert store.load(f"{tmp_path / 'net.py'}:make").parameters == 36
