"""Files of weights: headers are data, hostile ones are refused in a line; other known files say what to do instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.model import store
from analysis.model.model_errors import ModelError, ModelSpecError
from analysis.model.names.model_ref import refer
from analysis.model.reading_budget import STEPS, Budget
from analysis.model.transformer import weight_headers
from hwexplorer.settings import default_precision
from tests.attack import weight_files
from tests.waiting import never_endless

LLAMA = 64 * 100 * 2 + 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128 + 2 * 64) + 64


def written(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def test_a_gguf_file_is_the_transformer_that_it_names(tmp_path: Path) -> None:
    path = written(tmp_path, "small.gguf", weight_files.gguf())
    found = store.load(f"{path}:decode,kv=32")
    assert (found.parameters, found.defaults) == (LLAMA, {"sequence": 1, "kv": 32})
    assert "12,864 parameters (6,400 q4_k, 6,400 q6_k, 64 f32)" in found.notes[-1]
    tied = {name: tensor for name, tensor in weight_files.TENSORS.items() if name != "output.weight"}
    assert store.load(str(written(tmp_path, "t.gguf", weight_files.gguf(tensors=tied)))).parameters == LLAMA - 6400


@pytest.mark.parametrize("name", weight_files.HOSTILE)
def test_hostile_files_are_refused_at_once(name: str, tmp_path: Path) -> None:
    made: Callable[[], bytes] = weight_files.HOSTILE[name]
    path = written(tmp_path, "net.gguf", made())
    with never_endless(), pytest.raises(ModelError) as refused:
        weight_headers.load(path, "", Budget(STEPS // 10))
    line = str(refused.value)
    assert len(line) < 400
    assert line.isprintable()


def test_known_files_that_cannot_be_opened_say_what_to_do(tmp_path: Path) -> None:
    for suffix, instead in weight_headers.table()["instead"].items():
        with pytest.raises(ModelSpecError, match="net") as refused:
            refer(f"runs/net{suffix}")
        assert str(refused.value) == f"runs/net{suffix} is {instead}"
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelSpecError, match="hf:"):
        refer(str(tmp_path))


def test_a_configuration_and_a_file_of_weights_run_in_the_format_they_are_stored_in(tmp_path: Path) -> None:
    stored = {
        '"torch_dtype": "bfloat16"': "bf16",
        '"dtype": "float16"': "fp16",
        '"torch_dtype": "bfloat16", "quantization_config": {"quant_method": "mxfp4"}': "mxfp4",
        '"quantization_config": {"quant_method": "awq", "bits": 4}': "w4a16",
    }
    for number, (words, precision) in enumerate(stored.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "config.json").write_text('{"model_type": "llama", ' + words + "}")
        assert default_precision(f"hf:{folder}") == default_precision(f"hf:{folder}:decode,kv=9") == precision
    assert default_precision(str(written(tmp_path, "small.gguf", weight_files.gguf()))) == "q4_k_m"
    assert default_precision(str(tmp_path / "none.gguf")) == "fp32"
