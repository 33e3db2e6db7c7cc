"""Ten architectures counted by hand: full coverage, and every multiply-accumulate where it belongs."""

from capture_toys import flops, lowered
from ten_models import ten

from tests.sampling import for_each

TEN = ten()


@for_each("name", TEN)
def test_counted_by_hand(name: str) -> None:
    counted = TEN[name]
    w = lowered(counted.module.eval(), *counted.inputs)
    assert w.operators.has_rule.all(), [w.operators.target[i] for i in (~w.operators.has_rule).nonzero()[0]]
    for batch in (1, 3):
        found = (w.operators.macs @ w.value_at(batch=batch)).tolist()
        macs = {path: value for path, value in zip(w.operators.path, found, strict=True) if value}
        assert macs == {path: value * batch for path, value in counted.macs.items()}
    assert {path: flops(w, path) for path in counted.flops} == counted.flops
    assert w.parameters == sum(parameter.numel() for parameter in counted.module.parameters())
