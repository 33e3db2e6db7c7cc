"""What a name means is found once: every kind of name, however it is spelt, and the engine that asks by it."""

import msgspec
import pytest

from analysis.model import request_bounds
from analysis.model.model_errors import ModelError
from analysis.model.names import model_ref, targets, zoo
from analysis.model.names.model_ref import names, refer
from analysis.model.names.targets import Target
from analysis.model.names.zoo import Spec
from hardware import device_catalog
from hardware.base.errors import RequestError, match_name, nearest
from hwexplorer import engine
from hwexplorer.state import State, parse
from tests.sampling import for_each


@for_each(
    ("text", "kind", "canonical"),
    [
        ("resnet50", Spec, "resnet50"), ("ResNet-50", Spec, "resnet50"), (" Mobile.Net V2 ", Spec, "mobilenet_v2"),
        ("gemm:8x8x8", Spec, "gemm:M=8,N=8,K=8"), ("GEMM", Spec, "gemm"), ("conv2d:size=28", Spec, None),
        ("Llama3-8B:Decode,kv=512", object, "llama3_8b:decode,kv=512"), ("qwen2.5-3b", object, "qwen2_5_3b"),
        ("net.py:make(1x3,batch=none)", Target, "net.py:make(1x3,batch=none)"), ("net.onnx", Target, "net.onnx"),
        ("some.package:make", Target, "some.package:make()"), ("a.pt2", Target, "a.pt2()"),
    ],
)  # fmt: skip
def test_every_kind_of_name(text: str, kind: type, canonical: str | None) -> None:
    ref = refer(text)
    assert isinstance(ref, kind)
    assert canonical is None or str(ref) == canonical
    assert str(refer(str(ref))) == str(ref)
    assert refer(ref) is ref
    assert hash(ref) == hash(refer(text))


def test_a_name_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A state of one model asks eight things of its name; it used to be parsed for each of them."""
    state = State("mobilenet_v3_small", batch=3)
    engine.reset()
    model_ref._remembered.cache_clear()
    read: list[str] = []
    parsed = zoo.find_name
    monkeypatch.setattr(zoo, "find_name", lambda name: read.append(name) or parsed(name))
    monkeypatch.setattr(targets, "parse", lambda text: pytest.fail("a model of the zoo is no file"))
    assert engine.is_ready(state)
    for _ in range(3):
        engine.workload(state), engine.captured_model(state), engine.result(state), engine.is_edited(state)
    assert read == ["mobilenet_v3_small"]


@pytest.mark.parametrize("size", [request_bounds.IMAGE_SIZE + 1, 10_000, 20_000, 1 << 40, 0, -1])
def test_an_image_size_is_refused_alike_everywhere(size: int) -> None:
    """10,000 was `not between 1 and 8192` in one place, 20,000 `allowed: 1 to 16384` in another."""
    with pytest.raises(ModelError, match=f"allowed: 1 to {request_bounds.IMAGE_SIZE}"):
        refer("resnet18", size)
    with pytest.raises(RequestError, match=f"1 to {request_bounds.IMAGE_SIZE}"):
        State("resnet18", image_size=size)


def test_each_name_means_itself_however_it_is_spelt() -> None:
    every = names()
    for name in every:
        spellings = (name, name.upper(), name.replace("_", "-"), name.replace("_", "."), f"{name[0].upper()}{name[1:]}")
        assert {match_name(spelling, every) for spelling in spellings} == {name}


def test_names_by_sound() -> None:
    assert match_name("H100-SXM", ("h100_sxm", "h100_pcie")) == "h100_sxm"
    assert match_name("a b", ("a_b", "a-b")) is None  # which of them is meant cannot be told
    assert match_name("a_b", ("a_b", "a-b")) == "a_b"
    assert nearest("FP 61", ("fp16", "bf16", "int8"))[0] == "fp16"
    assert device_catalog.load_device("H100-SXM").id == device_catalog.load_device("h100 sxm").id == "h100_sxm"
    assert device_catalog.load_device("Jetson-AGX-Orin:15w").key == "jetson_agx_orin:15w"


def test_a_kept_model_replaces_what_was_estimated() -> None:
    state = parse("ResNet-18@b4/gpu")
    found, before = engine.result(state), engine.revision()
    assert found is engine.result(state)
    try:
        engine.keep(state, msgspec.structs.replace(engine.captured_model(state), name="mine"))
        assert engine.revision() == before + 1
        assert engine.result(state).workload.name == "mine"
    finally:
        engine.reset()
    assert engine.captured_model(state).name == "resnet18"
    assert engine.result(state).latency_s == found.latency_s
    with pytest.raises(RequestError, match="did you mean resnet50"):
        model_ref.refer("resnet5")
    with pytest.raises(RequestError, match=r"runs no code: hwexplorer capture net.py:make --input 1x3$"):
        engine.capture_job(State("net.py:make(1x3)"))
