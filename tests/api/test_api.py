"""`import hwexplorer as hx`: the same figures as the command line, of the same types, for next to nothing."""

import inspect
import json
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import networkx
import numpy as np
import pytest
import torch

import hwexplorer as hx
from analysis.explore.comparison import Comparison
from hardware import device_catalog
from hwexplorer import api, cli, registry
from tests.command import document

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"
IMPORTED_MAX = 60  # modules of Python and ours


def test_importing_it_loads_little_and_neither_torch_nor_the_screen() -> None:
    code = (
        "import sys; before = set(sys.modules); import hwexplorer; imported = len(set(sys.modules) - before)\n"
        "assert not {'numpy', 'torch', 'textual', 'networkx', 'argparse'} & set(sys.modules), 'too much'\n"
        "hwexplorer.compare('conv2d'); hwexplorer.devices('h100_sxm')\n"
        "assert not {'torch', 'textual', 'networkx'} & set(sys.modules)\nprint(imported)"
    )
    assert int(subprocess.check_output([sys.executable, "-c", code])) < IMPORTED_MAX


def test_every_report_is_a_function_and_nothing_else_is() -> None:
    offered = {name for name in dir(hx) if not name.startswith("_") and name != "capture"}
    assert offered == {*api.__all__, *(name for name in registry.verbs() if api.is_function(name))}
    assert {"compare", "tree", "sweep", "devices", "check", "show"} <= offered
    assert "open" not in offered
    for name in offered:
        function = getattr(hx, name)
        assert function is getattr(hx, name)
        assert function.__doc__[0].isupper() or name not in api.__all__
    with pytest.raises(AttributeError, match="compre"):
        hx.compre  # noqa: B018


def test_a_function_has_the_options_of_its_verb() -> None:
    parameters = inspect.signature(hx.search).parameters
    assert next(iter(parameters)) == "model"
    assert {"max_energy", "batches", "on", "batch"} <= {
        name for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY
    }
    assert "sides" in inspect.signature(hx.why).parameters
    assert "max_energy: " in hx.search.__doc__


def test_no_report_hides_a_module() -> None:
    modules = {path.stem for path in Path(hx.__file__).parent.iterdir()}
    assert not modules & {*api.__all__, *filter(api.is_function, registry.verbs())}


def test_a_result_is_the_document_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("compare", "resnet18", "--on", "h100_sxm,t4", "--batch", "8", "--precision", "fp16")
    compared = hx.compare("resnet18", on=["h100_sxm", "t4"], batch=8, precision="fp16")
    assert json.loads(json.dumps(compared.to_dict())) == document(*words)
    assert isinstance(compared.document, Comparison)
    assert [row.device for row in compared.rows] == ["h100_sxm", "t4"]
    assert compared.recommendations == compared.document.recommendations
    assert compared.records()[1]["ratio_to_baseline.energy"] == compared.rows[1].ratio_to_baseline["energy"]
    assert cli.main(list(words)) == 0
    assert repr(compared) == capsys.readouterr().out.rstrip("\n")
    html = compared._repr_html_()
    assert html.count('class="bar"') >= 6  # what it goes into, by cause
    assert "<script" not in html
    assert "body{" not in html  # it must not restyle the notebook


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("models", {"names": ["resnet18", "alexnet"], "on": "t4"}, "resnet18 alexnet --on t4"),
        ("search", {"model": "mlp", "max_energy": 0.1, "on": ["gpu"]}, "mlp --max-energy 100mJ --on gpu"),
        ("why", {"model": "mlp", "sides": ["cpu", "gpu"], "metric": "energy"}, "mlp cpu gpu --metric energy"),
        ("check", {"model": "mlp", "rule": ["energy < 1J", "latency < 1s"]},
         "mlp --rule 'energy < 1J' --rule 'latency < 1s'"),
        ("tree", {"model": "mlp", "runtime": "fused"}, "mlp --runtime fused"),
        ("devices", {"device": "t4"}, "t4"),
        ("models", {}, ""),
    ],
)  # fmt: skip
def test_arguments_are_the_words(name: str, given: dict[str, Any], words: str) -> None:
    import shlex

    result = getattr(hx, name)(**given)
    assert json.loads(json.dumps(result.to_dict())) == document(name, *shlex.split(words))
    assert len(result.rows) >= 1


def test_rows_of_a_view_alone_are_those_of_csv() -> None:
    tree = hx.tree("resnet18", on="gpu")
    assert tree.rows[0]["energy_j_per_inference"] == pytest.approx(tree.energy_j)
    assert {"key", "depth", "name", "share"} <= tree.rows[0].keys()


def test_wrong_requests_are_told_as_on_the_command_line() -> None:
    with pytest.raises(hx.RequestError, match="did you mean resnet50"):
        hx.compare("resnet5")
    with pytest.raises(hx.RequestError, match="out of range"):
        hx.compare("resnet18", batch=0)
    with pytest.raises(TypeError, match="batsh"):
        hx.compare("resnet18", batsh=2)
    assert "not < 1.00 nJ" in hx.check("resnet18", on="gpu", rule="energy < 1nJ").broken_rules
    assert hx.check("resnet18", on="gpu", rule="energy < 1kJ").broken_rules == ""


def test_the_operators_are_a_graph_of_networkx() -> None:
    with pytest.raises(hx.RequestError, match="events"):
        hx.show("event", "resnet18")
    graph = hx.graph("resnet18", on="h100_sxm", batch=8)
    assert isinstance(graph, networkx.DiGraph)
    energy = sum(joules for _, joules in graph.nodes.data("energy_j"))
    assert energy == pytest.approx(hx.tree("resnet18", on="h100_sxm", batch=8).energy_j)


def test_an_answer_shows_the_error_of_its_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hwexplorer.engine.result", lambda *_: SimpleNamespace())
    with pytest.raises(AttributeError, match="SimpleNamespace"):
        hx.tree("resnet18", on="t4").document  # noqa: B018


def test_a_captured_module_is_a_model_everywhere() -> None:
    torch = pytest.importorskip("torch")
    captured = hx.capture(torch.nn.Linear(8, 4), torch.zeros(2, 8), name="mine: [é]")
    compared = hx.compare(captured, on="gpu", batch=3)
    assert (compared.model, compared.macs_per_inference) == ("mine: [é]", 32)
    assert hx.models([captured, "mlp"], on="gpu").rows[0]
    assert len(hx.graph(captured)) == captured.n_operators


@pytest.mark.parametrize(
    "inputs",
    [(2, 8), torch.Size((2, 8)), [(2, 8)], {"input": (2, 8)}, np.zeros((2, 8), dtype=np.float32)],
    ids=str,
)
def test_shapes_and_arrays_are_inputs_of_a_capture(inputs: Any) -> None:
    assert hx.capture(torch.nn.Linear(8, 4), inputs).macs == 32


def test_a_function_is_a_model() -> None:
    captured = hx.capture(lambda x, y: torch.relu(x @ y), (torch.zeros(2, 8), torch.zeros(8, 4)))
    assert captured.macs == 32
    assert len(hx.compare(captured, on="gpu")) == 1


def test_the_notebook_runs() -> None:
    pytest.importorskip("torch")
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    shown: dict[str, Any] = {}
    for cell in cells:
        assert cell["source"]
        if cell["cell_type"] == "code":
            assert not cell["outputs"]
            exec(compile("".join(cell["source"]), NOTEBOOK.name, "exec"), shown)
    assert shown["best"].device
    assert len(shown["swept"].rows) == 6
    assert "mine" in shown["captured"].name


def test_results_pickle() -> None:
    """As joblib and caches of notebooks do."""
    result = hx.compare("resnet18", on=["h100_sxm", "t4"])
    again = pickle.loads(pickle.dumps(result))
    assert again.to_dict() == result.to_dict()
    assert again.to_text() == result.to_text()


def test_a_folder_of_devices_is_that_of_its_call_alone(tmp_path: Path) -> None:
    shipped = Path(device_catalog.__file__).parent / "catalog" / "l4.toml"
    (tmp_path / "my_l4.toml").write_text(shipped.read_text().replace('id = "l4"', 'id = "my_l4"'))
    mine = hx.compare("resnet18", on=["my_l4"], devices_dir=tmp_path)
    with pytest.raises(hx.RequestError, match="unknown device 'my_l4'"):
        hx.compare("resnet18", on=["my_l4"])
    assert "my_l4" in str(mine)  # a text is made when it is asked for
    assert len(hx.compare("resnet18", on=["l4"])) == 1
