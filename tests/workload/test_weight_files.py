"""Files of weights: headers are data, hostile ones are refused in a line; other known files say what to do instead."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.model import store
from analysis.model.model_errors import ModelError, ModelSpecError
from analysis.model.names.model_ref import refer
from analysis.model.reading_budget import STEPS, Budget
from analysis.model.transformer import weight_headers
from hwexplorer.cli import main
from hwexplorer.settings import default_precision
from tests.attack import weight_files
from tests.command import document
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
    assert default_precision(str(tmp_path / "none.gguf")) == "bf16"


# Metadata as llama.cpp's converter writes them -> the configuration they come from (keys of gguf 0.19).
_COMMON = {"block_count": 6, "embedding_length": 64, "feed_forward_length": 128, "attention.head_count": 4}
_FIELDS = {
    "num_hidden_layers": 6,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "vocab_size": 100,
}
_DELTA = {
    "ssm.conv_kernel": 4,
    "ssm.state_size": 8,
    "ssm.group_count": 2,
    "ssm.time_step_rank": 4,
    "ssm.inner_size": 64,
}
GGUF_FAMILIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "gemma3": (
        {"attention.head_count_kv": 2, "attention.key_length": 16, "attention.sliding_window": 512},
        {"model_type": "gemma3_text", "num_key_value_heads": 2, "head_dim": 16, "sliding_window": 512},
    ),
    "gemma4": (
        {"attention.head_count_kv": [2, 2, 2, 2, 2, 1], "attention.key_length": 32, "attention.key_length_swa": 16,
         "attention.sliding_window": 512, "attention.sliding_window_pattern": [True] * 5 + [False],
         "attention.shared_kv_layers": 0, "embedding_length_per_layer_input": 0},
        {"model_type": "gemma4_text", "num_key_value_heads": 2, "num_global_key_value_heads": 1, "head_dim": 16,
         "global_head_dim": 32, "sliding_window": 512, "hidden_size_per_layer_input": 0,
         "layer_types": ["sliding_attention"] * 5 + ["full_attention"]},
    ),
    "lfm2": (
        {"attention.head_count_kv": [0, 0, 2, 0, 0, 2], "shortconv.l_cache": 3},
        {"model_type": "lfm2", "num_key_value_heads": 2, "conv_L_cache": 3, "block_auto_adjust_ff_dim": False,
         "layer_types": ["conv", "conv", "full_attention"] * 2},
    ),
    "qwen35": (
        {"attention.head_count_kv": 2, "attention.key_length": 16, "full_attention_interval": 3, **_DELTA},
        {"model_type": "qwen3_5_text", "num_key_value_heads": 2, "head_dim": 16, "full_attention_interval": 3,
         "linear_conv_kernel_dim": 4, "linear_key_head_dim": 8, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
         "linear_value_head_dim": 16},
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", GGUF_FAMILIES)
def test_a_gguf_file_is_the_model_of_its_configuration(kind: str, tmp_path: Path) -> None:
    facts, fields = GGUF_FAMILIES[kind]
    stated = {f"{kind}.{key}": value for key, value in (_COMMON | facts).items()}
    path = written(tmp_path, "small.gguf", weight_files.gguf({"general.architecture": kind, **stated}))
    read = store.load(f"{path}:decode,kv=600")
    (tmp_path / "config.json").write_text(json.dumps(_FIELDS | {"tie_word_embeddings": False} | fields))
    named = store.load(f"hf:{tmp_path}:decode,kv=600")
    assert read.parameters == named.parameters
    assert np.array_equal(read.tensors.numel, named.tensors.numel)


def test_safetensors_open_by_the_configuration_beside_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tensors = {"a": {"dtype": "BF16", "shape": [4, 8], "data_offsets": [0, 64]}, "__metadata__": {"format": "pt"}}
    header, file = json.dumps(tensors).encode(), tmp_path / "model.safetensors"
    file.write_bytes(struct.pack("<Q", len(header)) + header + bytes(64))
    assert main(["capture", str(file)]) == 2
    assert "put its config.json beside it" in capsys.readouterr().err
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", "vocab_size": 256, **sizes}))
    beside = document("capture", f"{file}:decode,kv=64")
    assert document("capture", f"hf:{tmp_path}:decode,kv=64") == beside
