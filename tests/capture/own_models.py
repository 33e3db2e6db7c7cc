"""Models as a user might have them: good, and bad in every way a capture must survive. Captured, never imported."""

import dataclasses
import os
import subprocess
import sys
import types
from typing import Any

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.fc = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        return self.fc(torch.relu(self.conv(x)).mean((2, 3)))


class Branch(Net):
    def forward(self, x: Any) -> Any:
        if x.sum() > 0:  # branch
            return x
        return x * 2


class Item(Net):
    def forward(self, x: Any) -> Any:
        return x[:, :, : int(x[0, 0, 0, 0].item())]  # item


class Mask(Net):
    def forward(self, x: Any) -> Any:
        kept = x[x > 0]  # mask
        return kept * 2


class Bad(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        raise ValueError("no such width\nsecond line")  # constructor


class Fixed(Net):
    def forward(self, x: Any) -> Any:
        return super().forward(x.view(4, 3, 8, 8))


class Starred(Net):
    def forward(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        return super().forward(x + sum(args) + sum(kwargs.values()))


def starred() -> tuple[nn.Module, Any]:
    return Starred(), (torch.zeros(1, 3, 16, 16), torch.zeros(1, 3, 16, 16))


def starred_by_name() -> tuple[nn.Module, Any]:
    return Starred(), {"x": torch.zeros(1, 3, 16, 16), "more": torch.zeros(1, 3, 16, 16)}


class Rows(Net):
    """As diffusers does: large batches are copied first."""

    def forward(self, x: Any) -> Any:
        return super().forward(x.contiguous() if x.shape[0] >= 64 else x)


class Messages(nn.Module):
    """Nodes and the edges between them."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(16, 8)

    def forward(self, x: Any, edge_index: Any) -> Any:
        return torch.zeros_like(x[:, :8]).index_add(0, edge_index[1], self.fc(x)[edge_index[0]])


def messages() -> tuple[nn.Module, Any]:
    return Messages(), (torch.zeros(5, 16), torch.zeros(2, 9, dtype=torch.int64))


class Remembering(nn.Module):
    """A language model as transformers writes it, with a cache that torch does not know."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Any, past: Any = None) -> Any:
        keys = self.fc(x)
        cache = sys.modules["transformers.cache_utils"].Cache([*past.layers, keys] if past else [keys])
        return torch.cat(cache.layers, 1), cache


def remembering() -> tuple[nn.Module, Any]:
    """transformers, as far as it is needed here."""
    cache = type("Cache", (), {"__init__": _keep, "__module__": "transformers.cache_utils"})
    sys.modules["transformers.cache_utils"] = types.ModuleType("transformers.cache_utils")
    sys.modules["transformers.cache_utils"].Cache = cache  # type: ignore[attr-defined]
    return Remembering(), {"x": torch.zeros(1, 2, 4), "past": cache([torch.zeros(1, 6, 4)])}  # type: ignore[call-arg]


def _keep(self: Any, layers: list[Any]) -> None:
    self.layers = layers


class Two(Net):
    def forward(self, x: Any, t: Any) -> Any:
        return super().forward(x) + t


class Width(Net):
    def __init__(self, width: int) -> None:
        super().__init__()


class Looping(Net):
    def forward(self, x: Any) -> Any:
        while True:
            x = x.view(x.shape)


class RealValues(Net):
    """Its constructor reads values, so it cannot be built without weights."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = float(torch.ones(3).sum().item())

    def forward(self, x: Any) -> Any:
        return super().forward(x) * self.scale


def forever() -> nn.Module:
    while True:
        pass


def forty_gigabytes() -> nn.Module:
    kept = bytearray(40 << 30)  # allocation
    return nn.Linear(len(kept), 1)


def flood() -> nn.Module:
    for _ in range(100_000):
        print("x" * 100)
    os.write(1, b"raw" * 100_000)
    os.write(2, b"raw" * 100_000)
    return Net()


def leave() -> nn.Module:
    sys.exit(3)  # exit


def leave_hard() -> nn.Module:
    os._exit(5)


def no_module() -> dict[str, int]:
    return {"a": 1}


def with_inputs() -> tuple[nn.Module, Any]:
    return Net(), torch.zeros(1, 3, 16, 16)


def asks() -> nn.Module:
    input("width? ")
    return Net()


def leaves_a_process() -> nn.Module:
    """Its weights are forty gigabytes."""
    subprocess.Popen(["sleep", "86399"])
    net = Net()
    net.table = nn.Parameter(torch.zeros(10 << 30))
    return net


net = Net()

_library = torch.library.Library("own_models", "DEF")
_library.define("shaped(Tensor x) -> Tensor")
_library.impl("shaped", lambda x: x.clone(), "CPU")
torch.library.register_fake("own_models::shaped", lambda x: torch.empty_like(x), lib=_library)
_library.define("shapeless(Tensor x) -> Tensor")
_library.impl("shapeless", lambda x: x.clone(), "CPU")


class Unknown(Net):
    def forward(self, x: Any) -> Any:
        return super().forward(torch.ops.own_models.shaped(x))


class Shapeless(Net):
    def forward(self, x: Any) -> Any:
        return super().forward(torch.ops.own_models.shapeless(x))


class Named(Net):
    def forward(self, x: Any, *, scale: Any, shift: Any = None) -> Any:
        return super().forward(x) * scale + (0 if shift is None else shift)


def by_name() -> tuple[nn.Module, dict[str, Any]]:
    return Named(), {"x": torch.zeros(2, 3, 16, 16), "scale": torch.zeros(2, 4), "shift": 3.0}


class OfDict(Net):
    def forward(self, batch: Any) -> Any:
        return super().forward(batch["image"]) * batch["weights"][1]


def of_dict() -> tuple[nn.Module, dict[str, Any]]:
    return OfDict(), {"image": torch.zeros(2, 3, 16, 16), "weights": [None, torch.zeros(2, 4)]}


class PartlyScripted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = torch.jit.script(nn.Linear(8, 4))

    def forward(self, x: Any) -> Any:
        return self.part(x)


def quantised() -> nn.Module:
    return torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(8, 4)), {nn.Linear}, dtype=torch.qint8)


def exported() -> Any:
    return torch.export.export(Net().eval(), (torch.zeros(2, 3, 16, 16),))


def lazy() -> nn.Module:
    return nn.Sequential(nn.LazyConv2d(8, 3), nn.Flatten(), nn.LazyLinear(4))


def compiled() -> Any:
    return torch.compile(Net())


def closes_everything() -> nn.Module:
    os.closerange(3, 100)
    while True:
        pass


def unchanged() -> nn.Module:
    return nn.Identity()


class Numpy(Net):
    def forward(self, x: Any) -> Any:
        return torch.from_numpy(x.numpy() * 2)  # numpy


class OfList(nn.Module):
    """A list, a tuple or a dictionary of tensors goes in."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Linear(16, 4), nn.Linear(8, 4)

    def forward(self, xs: Any) -> Any:
        first, second = (xs["a"], xs["b"]) if isinstance(xs, dict) else xs
        return self.wide(first) + self.narrow(second)


def of_list() -> Any:
    return OfList(), ([torch.zeros(1, 16), torch.zeros(1, 8)],)


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(16, 4, batch_first=True)

    def forward(self, x: Any, lengths: Any) -> Any:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return self.lstm(packed)[1][0]


class Loops(nn.Module):
    """As GCN and GAT: edges from a node to itself are taken out, and one for each node put in."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(16, 8)

    def forward(self, x: Any, adj: Any) -> Any:
        others = adj[:, adj[0] != adj[1]]
        loops = torch.arange(x.shape[0], device=x.device).expand(2, -1)
        edges = torch.cat([others, loops], dim=1)
        return torch.zeros_like(x[:, :8]).index_add(0, edges[1], self.fc(x)[edges[0]])


class Adjacency(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("edges", torch.eye(4).to_sparse_csr())

    def forward(self, x: Any) -> Any:
        return self.edges @ x


class Densities(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.sparse.mm(x.to_sparse(), x.T)


class Nested(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.nested.nested_tensor([x, x[:2]]).to_padded_tensor(0.0)


class Forces(nn.Module):
    def forward(self, x: Any) -> Any:
        x = x.requires_grad_(True)
        return torch.autograd.grad(x.pow(2).sum(), x)[0]


class Tangents(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.func.jvp(torch.tanh, (x,), (torch.ones_like(x),))[1]


@dataclasses.dataclass
class Sample:
    x: Any
    mask: Any
    name: str = "first"


@dataclasses.dataclass
class Scores:
    scores: Any
    weights: Any


class OfSample(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 4)

    def forward(self, sample: Any) -> Any:
        return Scores(self.fc(sample.x) * sample.mask[..., None], sample.mask)


def in_an_object() -> Any:
    return OfSample(), (Sample(torch.zeros(1, 5, 8), torch.ones(1, 5)),)


class Tokens(nn.Module):
    """As tutorials have it: a class token for each row, and a causal mask without the hint that it is causal."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.zeros(1, 1, 16))
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    def forward(self, x: Any) -> Any:
        x = torch.cat([self.first.expand(len(x), -1, -1), x], 1)
        return self.encoder(x, mask=nn.Transformer.generate_square_subsequent_mask(7, device=x.device))


class Chain(nn.Module):
    """A product of three matrices, and a buffer of computed values beside weights of 80 GB."""

    def __init__(self) -> None:
        super().__init__()
        steps = 1.0 / 10000 ** (torch.arange(0, 8).float() / 16)
        self.register_buffer("steps", torch.cat([steps, torch.zeros(8)]))
        self.wide = nn.Linear(100_000, 200_000, bias=False)

    def forward(self, a: Any, b: Any, c: Any, x: Any) -> Any:
        return torch.linalg.multi_dot([a, b, c]), self.wide(x) * self.steps.sum()


def chain() -> Any:
    return Chain(), (torch.rand(1, 64), torch.rand(64, 32), torch.rand(32, 8), torch.rand(1, 100_000))
