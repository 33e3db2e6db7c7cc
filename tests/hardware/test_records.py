"""A row of a shipped table that is no record says where it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from hardware import file_access
from hardware.architecture_data import COMMON, Data
from hardware.engines import runtime
from hardware.records import convert_record


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"streming": {}}, "runtimes.toml: runtimes.vllm: Object contains unknown field `streming` (did you mean"),
        ({"mode": 3}, "runtimes.toml: runtimes.vllm: Expected `str`, got `int` - at `$.mode`"),
    ],
)
def test_a_wrong_field_names_file_and_record(change: dict[str, object], message: str) -> None:
    row = {"name": "vLLM", "mode": "fused", "runs_on": ["gpu"], **change}
    with pytest.raises(ValueError, match="runtimes") as error:
        convert_record(Path("runtimes.toml"), "runtimes.vllm", row, runtime.Runtime)
    assert str(error.value).startswith(message)
    assert "streaming" in str(error.value) or "mode" in change


@pytest.mark.parametrize("field", [{"scheduler": "vlm"}, {"formats": ["pytorchh"]}, {"products": "gml"}])
def test_a_runtime_names_what_is_recorded(field: dict[str, object]) -> None:
    row = {"name": "mine", "mode": "eager", "runs_on": ["gpu"], **field}
    with pytest.raises(ValueError, match=rf"mine\.toml: runtimes\.mine\.{next(iter(field))}: .* \(did you mean"):
        runtime._make_records(Path("mine.toml"), {"mine": row})


def test_a_wrong_constant_of_an_architecture_is_named() -> None:
    constants = file_access.shipped(COMMON)["assumptions"]
    data = {"assumptions": constants | {"tiles": {"value": "many"}}}
    with pytest.raises(ValueError, match=r"gpu\.toml: assumptions\.tiles: "):
        convert_record(Path("gpu.toml"), "", data, Data)
