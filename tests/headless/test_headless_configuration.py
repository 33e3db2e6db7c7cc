"""`hf:` of an architecture that has no reader here: transformers builds it, where it is installed."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# What transformers is to a configuration, where it is not installed.
_STAND_IN = """
import json, torch
__version__ = "0"

class AutoConfig:
    architectures = None

    def from_pretrained(path, trust_remote_code, local_files_only):
        assert local_files_only and not trust_remote_code
        config = AutoConfig()
        vars(config).update(json.load(open(path)))
        if config.model_type == "unknown":
            raise ValueError("The checkpoint you are trying to load\\nhas a model type that is not known")
        if hasattr(config, "text_config"):
            config.text_config = type("Config", (), config.text_config)()
        return config

class BioGptForCausalLM(torch.nn.Module):
    main_input_name = "input_ids"

    def _from_config(config):
        return BioGptForCausalLM(config)

    def __init__(self, config):
        super().__init__()
        self.embed = torch.nn.Embedding(config.vocab_size, config.hidden_size)
        self.head = torch.nn.Linear(config.hidden_size, config.vocab_size)

    def forward(self, input_ids):
        return self.head(self.embed(input_ids))

class AutoModelForCausalLM:
    from_config = BioGptForCausalLM
"""
_SIZES = {"vocab_size": 1000, "hidden_size": 64}


def test_a_configuration_without_a_reader_is_built_by_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[..., Any], quick_captures: None
) -> None:
    """No code of the folder, the formats that are stored and the parts left out said, in the first line."""
    (tmp_path / "libs" / "transformers").mkdir(parents=True)
    (tmp_path / "libs" / "transformers" / "__init__.py").write_text(_STAND_IN)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'libs'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.syspath_prepend(tmp_path / "libs")
    awq = {"quant_method": "awq", "bits": 4}
    cases = {
        "plain": {"model_type": "biogpt", "architectures": ["BioGptForCausalLM"], "quantization_config": awq, **_SIZES},
        "parts": {"model_type": "x", "vision_config": {}, "text_config": {"model_type": "y", **_SIZES}},
        "none": {"model_type": "unknown"},
    }
    for name, raw in cases.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(raw))
    found = call("compare", f"hf:{tmp_path / 'plain'}", "--on", "gpu")
    assert found.out.startswith("hf:plain, ")
    assert "--precision w4a16" in found.out
    at_64 = call("compare", f"hf:{tmp_path / 'plain'}", "--input", "2x64:int64", "--on", "gpu")
    assert at_64.out != found.out
    first = call("tree", f"hf:{tmp_path / 'parts'}", "--on", "gpu").out.splitlines()[0]
    assert first.startswith("the language model alone: without its vision tower. ")
    refused = call("compare", f"hf:{tmp_path / 'none'}")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "does not know it without code of its folder, which is not run" in refused.err
