"""Laws of training steps, and torch as the judge of their products and of what they keep."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.operator_facts import dispatches
from analysis.estimate.scenario import Scenario
from analysis.model import store
from analysis.model.ir.workload import BUFFER, WEIGHT, Workload
from analysis.model.model_errors import ModelSpecError
from analysis.model.names.model_ref import refer
from analysis.model.training.step import BACKWARD, FORWARD, as_run, saved_tensors
from analysis.model.training.training_request import Step
from hardware.device_catalog import load_device
from hwexplorer.engine import resolve_model_name

MODELS = ("resnet18", "mobilenet_v2", "vit_b_16", "bert_base:sequence=64", "gpt2:sequence=64", "squeezenet1_1")


def _step(model: str, *options: str) -> Workload:
    return store.load(f"{model}{',' if ':' in model else ':'}{','.join(('train', *options))}")


def _macs(workload: Workload, begins: str = "", batch: int = 2) -> float:
    macs = workload.operators.macs @ workload.value_at(batch=batch)
    times = 1.0 if workload.repeats is None else workload.repeats @ workload.value_at(batch=batch)
    return float((macs * times)[[path.startswith(begins) for path in workload.operators.path]].sum())


def _estimate(model: str, *options: str, batch: int = 32, precision: str = "bf16", on: str = "h100_sxm") -> Estimate:
    return estimate(_step(model, *options), load_device(on), Scenario(batch=batch, precision=precision))


@pytest.mark.parametrize("model", [*MODELS, "mixtral_8x7b:sequence=64", "bloom_7b1:sequence=64"])
def test_a_step_takes_three_times_the_products_of_its_forward_pass_less_the_first_layer(model: str) -> None:
    step = _step(model, "attention=plain")
    forward = step.training and step.training.forward
    assert forward is not None
    macs = forward.operators.macs @ forward.value_at(batch=2)
    first = 0.0 if "sequence" in model else macs[np.flatnonzero(macs)[0]]  # nothing trains an image
    assert _macs(step, FORWARD) == pytest.approx(macs.sum())
    assert _macs(step, BACKWARD) == pytest.approx(2.0 * macs.sum() - first)


def test_both_operands_of_a_product_have_a_gradient_if_they_are_parts_of_one_tensor() -> None:
    step = _step("raft_small")
    macs = (step.operators.macs @ step.value_at(batch=2))[[kind == "matmul" for kind in step.operators.kind]]
    assert macs.tolist() == [macs[0], 2.0 * macs[0]]


@settings(max_examples=8)
@given(st.sampled_from(MODELS), st.sampled_from((1, 2, 8, 64)), st.sampled_from(("fp32", "bf16")))
def test_what_is_computed_again_never_raises_the_peak_and_never_lowers_the_time(
    model: str, batch: int, precision: str
) -> None:
    kept, again = (_estimate(model, *words, batch=batch, precision=precision) for words in ((), ("recompute=blocks",)))
    assert again.peak_memory_bytes <= kept.peak_memory_bytes * (1 + 1e-9)
    assert again.latency_s >= kept.latency_s * (1 - 1e-9)


@pytest.mark.parametrize(
    ("parts", "model", "on"),
    [(2, "googlenet:optimizer=adamw8bit", "tpu_v5e"), (2, "mobilenet_v2", "h100_sxm"), (16, "mlp", "epyc_9654")],
)
def test_parts_of_a_batch_add_up(parts: int, model: str, on: str) -> None:
    spread = [_step("mixtral_8x7b", "ep=8", "sequence=512", f"accumulate={n}") for n in (1, parts)]
    assert _macs(spread[1], batch=256) == pytest.approx(_macs(spread[0], batch=256), rel=0.01)  # experts of 8 devices
    whole, divided = _step("resnet18"), _step("resnet18", f"accumulate={parts}")
    assert _macs(divided, batch=64) == pytest.approx(_macs(whole, batch=64))
    part, one = (
        _estimate(model, *words, batch=32 * n, precision="fp32", on=on)
        for words, n in (((f"accumulate={parts}",), parts), ((), 1))
    )
    update_s = sum(one.run.latency_s[[path.startswith("update") for path in one.workload.operators.path]])
    assert part.latency_s == pytest.approx(parts * one.latency_s - (parts - 1) * update_s, rel=0.01)  # updates once
    assert part.peak_memory_bytes == pytest.approx(one.peak_memory_bytes)


@pytest.mark.parametrize("model", ["resnet18", "bert_base:sequence=64"])
def test_devices_that_share_a_batch_take_longer_than_one_with_its_share(model: str) -> None:
    reference, device = refer(f"{model}{',' if ':' in model else ':'}train"), load_device("h100_sxm")
    assert isinstance(reference, Step)
    steps = {count: store.ready(reference.on_devices(count)) for count in (1, 2, 8)}
    times = [estimate(step, device, Scenario(64 * n, "fp32")).latency_s for n, step in steps.items() if step]
    assert times == sorted(times)
    assert times[2] < 1.2 * times[0]  # 7 to 7.8 times the rate of one, as published


def test_each_stage_of_zero_divides_states_then_gradients_then_weights() -> None:
    steps = [refer(f"llama3_8b:train,sequence=1,layers=4,zero={stage}") for stage in range(4)]
    ready = [store.ready(step.on_devices(8)) for step in steps if isinstance(step, Step)]
    peaks = [estimate(step, load_device("h100_sxm"), Scenario(8, "fp32")).peak_memory_bytes for step in ready if step]
    assert peaks[0] == pytest.approx(16.0 * ready[0].parameters, rel=0.01)  # type: ignore[union-attr]
    assert peaks[1] == pytest.approx((4.0 + 4.0 + 8.0 / 8) * ready[0].parameters, rel=0.01)  # type: ignore[union-attr]
    assert peaks == sorted(peaks, reverse=True)


def test_modules_that_run_call_by_call_keep_what_their_calls_read() -> None:
    step = _step("phi_2:sequence=32,layers=1")
    kept = [as_run(step, 4.0, is_eager) for is_eager in (True, False)]
    eager, joined = (float((each.tensors.numel @ each.value_at(batch=2))[saved_tensors(each)].sum()) for each in kept)
    assert eager - joined == 3 * 2 * 32 * 10240  # tanh and both factors of the last product


@pytest.mark.parametrize("stage", [0, 1, 3])
def test_experts_on_several_devices_exchange_tokens_and_no_gradients(stage: int) -> None:
    """Tokens go to the experts of others and back, in both directions; the other weights are alike on all devices."""
    step = _step("mixtral_8x7b:sequence=64,layers=1", "ep=8", f"zero={stage}")
    ops, numel = step.operators, step.tensors.numel @ step.value_at(batch=8)
    reads = np.split(ops.in_tensor, ops.in_ptr[1:-1])
    exchanged = sum(numel[read].sum() for path, read in zip(ops.path, reads, strict=True) if ".exchange" in path)
    is_expert = [".experts." in name for name in step.tensors.name]
    experts = numel[(step.tensors.role == WEIGHT) & is_expert].sum()
    assert ops.kind.count("all_to_all") == 4
    assert experts == pytest.approx(3 * 4096 * 14336)
    whole = _step("mixtral_8x7b:sequence=64,layers=1", "ep=8").parameters
    assert exchanged == pytest.approx(whole - experts, rel=0.01)


def test_the_host_starts_one_call_for_each_operator_and_one_node_for_its_gradients() -> None:
    step = as_run(_step("densenet121"), 4.0)
    calls = dispatches(step, awaits=False)
    phase = np.array([path.partition(".")[0] for path in step.operators.path])
    forward = step.training and step.training.forward
    assert forward is not None
    started = forward.n_operators - forward.operators.kind.count("bias") + 1  # the loss
    assert calls[phase == FORWARD].sum() == started
    assert calls[phase == BACKWARD].sum() == started - forward.operators.kind.count("cat")  # 535 sums are inside


@pytest.mark.parametrize(
    ("model", "drops", "copies"), [("bert_base:sequence=64", 36, 48), ("shufflenet_v2_x1_0", 0, 16)]
)
def test_what_is_dropped_and_laid_out_has_gradients_as_in_torch(model: str, drops: int, copies: int) -> None:
    ops = as_run(_step(model), 4.0).operators
    for phase in (FORWARD, BACKWARD):
        inside = {path: kind for path, kind in zip(ops.path, ops.kind, strict=True) if path.startswith(phase)}
        assert sum("dropout" in path for path in inside) == drops
        assert list(inside.values()).count("copy") == copies


@pytest.mark.parametrize(
    ("optimizer", "each"), [("sgd", 0.0), ("momentum", 4.0), ("adamw", 8.0), ("adamw8bit", 2.03125)]
)
def test_states_of_an_optimizer_have_their_bytes(optimizer: str, each: float) -> None:
    step = _step("resnet18", f"optimizer={optimizer}")
    tensors, point = step.tensors, step.value_at(batch=1)
    sizes = tensors.numel @ point * tensors.fixed_bytes
    states = sum(size for size, name in zip(sizes, tensors.name, strict=True) if name.endswith((".state", ".master")))
    weights = (tensors.numel @ point)[tensors.role == WEIGHT]
    assert weights.sum() == step.parameters
    small = weights[weights < 4096].sum() if optimizer == "adamw8bit" else 0.0  # whose states have 32 bits
    assert states == pytest.approx(each * (step.parameters - small) + 8.0 * small)


def test_adapters_leave_the_base_without_gradients() -> None:
    step = _step("llama3_8b:sequence=32", "lora=8")
    layers = [name for name in step.tensors.name if name.endswith(".state")]
    assert layers
    assert all(".lora" in name for name in layers)
    assert _macs(step, BACKWARD) < 1.05 * _macs(step, FORWARD)


def test_weights_stay_in_fp32_beside_values_of_16_bits() -> None:
    narrow, wide = _step("resnet18"), as_run(_step("resnet18"), 4.0)
    for tensors, fixed in ((narrow.tensors, 4), (wide.tensors, 0)):
        assert set(tensors.fixed_bytes[tensors.role == WEIGHT].tolist()) == {fixed}
        assert BUFFER in tensors.role
    assert sum(kind == "cast" for kind in narrow.operators.kind) > 40
    assert "cast" not in wide.operators.kind


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("resnet50:train,optimizer=adam", "adamw"),
        ("resnet50:train,optimizr=adamw", "did you mean optimizer"),
        ("resnet50:train,opt=adamw", "in training has no option 'opt'"),
        ("resnet50:train,zero=4", "zero"),
        ("llama3_8b:decode,train", "no other phase"),
        ("resnet50:trains", "nothing but train"),
    ],
)
def test_a_wrong_option_is_refused(name: str, says: str) -> None:
    with pytest.raises(ModelSpecError, match=says):
        refer(name)


def test_one_step_has_one_name(tmp_path: Path) -> None:
    orders = ("train,sequence=128,zero=3", "sequence=128,train,zero=3", "zero=3,sequence=128,train")
    assert {str(refer(f"Llama3-8B:{order}")) for order in orders} == {f"llama3_8b:{orders[0]}"}
    (file := tmp_path / "net.onnx").touch()
    assert resolve_model_name(f"{file}:train,batch=4,zero=3") == f"{file}:train,zero=3,batch=4"


# --- torch as the judge --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "googlenet", "swin_t"])
def test_torch_counts_the_same_products_and_keeps_the_same_bytes(name: str) -> None:
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode, flop_registry

    from analysis.capture.torch_settings import import_torchvision

    back = torch.ops.aten.convolution_backward

    def by_group(*args: object, **_: object) -> int:
        """Count as torch, but the gradient of a weight once, not once for each group of its channels."""
        like = [torch.empty(shape, device="meta") for shape in args[1:3]]
        mask = args[10]
        counts = [
            flop_registry[back](
                *args[:10], [k == 0, k == 1, False], out_val=[*(like[:1] if k == 0 else [None]), like[1], None]
            )
            for k in range(2)
        ]
        return counts[0] * bool(mask[0]) + counts[1] // args[9]  # type: ignore[index,operator,no-any-return]

    with torch.device("meta"):
        model = import_torchvision().models.get_model(name, weights=None).train()
        weights = {weight.untyped_storage()._cdata for weight in model.parameters()}
        kept: dict[int, object] = {}
        with FlopCounterMode(display=False, custom_mapping={back: by_group}) as counter:
            with torch.autograd.graph.saved_tensors_hooks(
                lambda t: kept.setdefault(t.untyped_storage()._cdata, t) is None or t, lambda t: t
            ):
                result = sum(part.sum() for part in torch.utils._pytree.tree_leaves(model(torch.zeros(2, 3, 224, 224))))
            forward = counter.get_total_flops()
            result.backward()
    step = as_run(_step(name), 4.0)
    assert 2.0 * _macs(step, FORWARD) == forward
    assert 2.0 * _macs(step, BACKWARD) == pytest.approx(counter.get_total_flops() - forward, rel=1e-9)
    bytes_kept = sum(t.untyped_storage().nbytes() for key, t in kept.items() if key not in weights)  # type: ignore[attr-defined]
    saved, tensors = saved_tensors(step), step.tensors
    widths = np.maximum(tensors.fixed_bytes, 4 * (tensors.fixed_bytes == 0))
    ours = float((tensors.numel @ step.value_at(batch=2) * widths)[saved].sum())
    assert ours == pytest.approx(bytes_kept, rel=0.05)
