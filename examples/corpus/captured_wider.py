"""Models of smaller libraries that bench_captures.py tries too: vision, video, sound, agents, tables, operators
of partial differential equations, state spaces, spikes, flows. Each is built as the library's own examples build it."""

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from examples.corpus.captured_families import Build


def _image(size: int = 224, channels: int = 3) -> Any:
    return torch.zeros(1, channels, size, size)


def _words(length: int = 128) -> Any:
    return torch.zeros(1, length, dtype=torch.int64)


class _Method(nn.Module):  # type: ignore[misc]
    """A method of a module, called as `forward`."""

    def __init__(self, module: nn.Module, method: str) -> None:
        super().__init__()
        self.module, self.method = module, method

    def forward(self, *inputs: Any) -> Any:
        return getattr(self.module, self.method)(*inputs)


def _kornia() -> dict[str, Build]:
    import kornia.contrib
    import kornia.feature as feature
    import kornia.models.dexined
    import kornia.models.rrdbnet
    import kornia.models.tiny_vit

    patches = torch.rand(1, 1, 32, 32)
    return {
        "HardNet": lambda: (feature.HardNet(pretrained=False), patches),
        "HardNet8": lambda: (feature.HardNet8(pretrained=False), patches),
        "HyNet": lambda: (feature.HyNet(pretrained=False), patches),
        "SOSNet": lambda: (feature.SOSNet(pretrained=False), patches),
        "TFeat": lambda: (feature.TFeat(pretrained=False), patches),
        "DISK heatmaps": lambda: (_Method(feature.DISK(), "heatmap_and_dense_descriptors"), _image(256)),
        "KeyNet": lambda: (feature.KeyNet(pretrained=False), torch.rand(1, 1, 256, 256)),
        "TinyViT": lambda: (kornia.models.tiny_vit.TinyViT.from_config("5m"), _image()),
        "RRDBNet": lambda: (kornia.models.rrdbnet.RRDBNet(3, 3, 2), _image(64)),
        "DexiNed": lambda: (kornia.models.dexined.DexiNed(pretrained=False), _image(256)),
    }


def _open_clip() -> dict[str, Build]:
    import open_clip

    def build(name: str) -> tuple[Any, Any]:
        model = open_clip.create_model(name, pretrained=None)
        size = model.visual.image_size
        text = torch.zeros(1, model.context_length, dtype=torch.int64)
        return model, (_image(size if isinstance(size, int) else size[0]), text)

    names = ("ViT-B-32", "RN50", "convnext_tiny", "coca_ViT-B-32", "ViT-S-16-alt", "MobileCLIP2-S0")
    return {name: partial(build, name) for name in names}


def _video() -> dict[str, Build]:
    import pytorchvideo.models as models
    from pytorchvideo.models import csn, r2plus1d, resnet, slowfast, vision_transformers, x3d

    clip = torch.zeros(1, 3, 8, 112, 112)
    assert models
    return {
        "x3d_s": lambda: (x3d.create_x3d(input_clip_length=8, input_crop_size=112), clip),
        "slow_r50": lambda: (resnet.create_resnet(head_pool_kernel_size=(8, 4, 4)), clip),
        "csn": lambda: (csn.create_csn(head_pool_kernel_size=(1, 4, 4)), clip),
        "r2plus1d": lambda: (
            r2plus1d.create_r2plus1d(head_pool_kernel_size=(2, 4, 4)),
            torch.zeros(1, 3, 16, 112, 112),
        ),
        "slowfast": lambda: (
            slowfast.create_slowfast(head_pool_kernel_sizes=((8, 4, 4), (32, 4, 4))),
            ([clip, torch.zeros(1, 3, 32, 112, 112)],),
        ),
        "mvit": lambda: (
            vision_transformers.create_multiscale_vision_transformers(
                spatial_size=112, temporal_size=8, embed_dim_mul=[[1, 2.0]], atten_head_mul=[[1, 2.0]], depth=4
            ),
            clip,
        ),
    }


def _operators() -> dict[str, Build]:
    from neuralop import models

    field = torch.rand(1, 1, 64, 64)
    return {
        "FNO": lambda: (models.FNO(n_modes=(16, 16), in_channels=1, out_channels=1, hidden_channels=32), field),
        "TFNO": lambda: (models.TFNO(n_modes=(16, 16), in_channels=1, out_channels=1, hidden_channels=32), field),
        "UNO": lambda: (
            models.UNO(1, 1, 32, uno_out_channels=[32, 64, 32], uno_n_modes=[[8, 8]] * 3,
                       uno_scalings=[[1, 1], [0.5, 0.5], [2, 2]], n_layers=3, channel_mlp_skip="linear"), field,
        ),
    }  # fmt: skip


def _agents() -> dict[str, Build]:
    from torchrl import modules

    frame, seen = torch.rand(1, 4, 84, 84), torch.rand(1, 17)
    return {
        "MLP": lambda: (modules.MLP(17, 6, num_cells=[256, 256]), seen),
        "ConvNet": lambda: (modules.ConvNet(4), frame),
        "DuelingCnnDQNet": lambda: (modules.DuelingCnnDQNet(6, cnn_kwargs={"in_features": 4}), frame),
        "DdpgMlpActor": lambda: (modules.DdpgMlpActor(6), seen),
        "DecisionTransformer": lambda: (
            modules.DecisionTransformer(17, 6), (torch.rand(1, 20, 17), torch.rand(1, 20, 6), torch.rand(1, 20, 1)),
        ),
        "GRU": lambda: (modules.GRU(17, 64), torch.rand(1, 20, 17)),
        "LSTM": lambda: (modules.LSTM(17, 64), torch.rand(1, 20, 17)),
        "ObsEncoder": lambda: (modules.ObsEncoder(), torch.rand(1, 3, 64, 64)),
        "MultiAgentMLP": lambda: (
            modules.MultiAgentMLP(17, 6, n_agents=4, centralized=True, share_params=True), torch.rand(1, 4, 17),
        ),
    }  # fmt: skip


def _recommenders() -> dict[str, Build]:
    from deepctr_torch import inputs, models

    sparse = [inputs.SparseFeat(f"c{place}", 1000, embedding_dim=8) for place in range(20)]
    features = [*sparse, *(inputs.DenseFeat(f"d{place}", 1) for place in range(5))]
    row = torch.rand(1, 25).floor()

    def build(name: str) -> tuple[Any, Any]:
        if name == "AFM":  # takes categories only
            return models.AFM(sparse, sparse, task="binary"), row[:, :20]
        return getattr(models, name)(features, features, task="binary"), row

    return {name: partial(build, name) for name in ("DeepFM", "DCN", "AutoInt", "FiBiNET", "WDL", "NFM", "AFM", "ONN",
                                                    "DIFM", "DCNMix")}  # fmt: skip


def _older_images() -> dict[str, Build]:
    import pretrainedmodels

    sizes = {"inceptionresnetv2": 299, "nasnetamobile": 224, "dpn68": 224, "bninception": 224, "xception": 299,
             "polynet": 331, "pnasnet5large": 331, "cafferesnet101": 224}  # fmt: skip

    def build(name: str) -> tuple[Any, Any]:
        return getattr(pretrainedmodels, name)(num_classes=1000, pretrained=None), _image(sizes[name])

    return {name: partial(build, name) for name in sizes}


def _litgpt() -> dict[str, Build]:
    import litgpt

    def build(name: str) -> tuple[Any, Any]:
        return litgpt.GPT(litgpt.Config.from_name(name, n_layer=2)), _words()

    names = ("pythia-70m", "Gemma-2-2b", "phi-4", "Qwen2.5-0.5B", "OLMo-2-1124-7B", "Falcon3-1B-Base", "SmolLM2-135M",
             "Mixtral-8x7B-v0.1", "Qwen3-0.6B", "stablelm-base-alpha-3b")  # fmt: skip
    return {name: partial(build, name) for name in names}


def _small_libraries() -> dict[str, Build]:
    """A model or two of each library; one that is not installed says so where its model is built."""

    def made(module: str, build: Callable[[Any], tuple[Any, Any]]) -> tuple[Any, Any]:
        return build(importlib.import_module(module))

    return {name: partial(made, *row) for name, row in _SMALL.items()}


def _denoiser(library: Any) -> tuple[Any, Any]:
    return library.Unet(dim=32, dim_mults=(1, 2, 4)), (_image(64), torch.zeros(1))


def _spiking(library: Any) -> tuple[Any, Any]:
    class Net(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(784, 256), nn.Linear(256, 10)
            self.spike, self.out = library.Leaky(beta=0.9), library.Leaky(beta=0.9)

        def forward(self, x: Any) -> Any:
            one, two, spikes = self.spike.init_leaky(), self.out.init_leaky(), []
            for _ in range(8):
                spike, one = self.spike(self.first(x), one)
                spike, two = self.out(self.last(spike), two)
                spikes.append(spike)
            return torch.stack(spikes)

    return Net(), torch.rand(1, 784)


class _Ode(nn.Module):  # type: ignore[misc]
    def __init__(self, library: Any) -> None:
        super().__init__()
        self.library, self.net = library, nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 16))

    def forward(self, x: Any) -> Any:
        return self.library.odeint(lambda _, y: self.net(y), x, torch.linspace(0.0, 1.0, 5), method="rk4")


def _gaussian_process(library: Any) -> tuple[Any, Any]:
    class Net(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.features, self.kernel = nn.Linear(16, 4), library.kernels.RBFKernel()

        def forward(self, x: Any) -> Any:
            return self.kernel(self.features(x)).to_dense()

    return Net(), torch.rand(1, 32, 16)


def _flow(library: Any) -> tuple[Any, Any]:
    nets = [library.nets.MLP([4, 64, 64, 8], init_zeros=True) for _ in range(4)]
    layers = [library.flows.AffineCouplingBlock(net) for net in nets]
    flow = library.NormalizingFlow(library.distributions.DiagGaussian(8), layers)
    return _Method(flow, "log_prob"), torch.rand(1, 8)


def _xlstm(library: Any) -> tuple[Any, Any]:
    layer = library.mLSTMBlockConfig(
        mlstm=library.mLSTMLayerConfig(conv1d_kernel_size=4, qkv_proj_blocksize=4, num_heads=4)
    )
    config = library.xLSTMBlockStackConfig(mlstm_block=layer, context_length=128, num_blocks=2, embedding_dim=128)
    return library.xLSTMBlockStack(config), torch.rand(1, 128, 128)


_SMALL: dict[str, tuple[str, Callable[[Any], tuple[Any, Any]]]] = {
    "perceiver_pytorch Perceiver": (
        "perceiver_pytorch",
        lambda m: (
            m.Perceiver(num_freq_bands=6, depth=2, max_freq=10.0, input_channels=3, latent_dim=256, num_latents=64),
            torch.rand(1, 64, 64, 3),
        ),
    ),
    "perceiver_pytorch PerceiverLM": (
        "perceiver_pytorch",
        lambda m: (
            m.PerceiverLM(num_tokens=1000, dim=32, depth=2, max_seq_len=128, num_latents=32, latent_dim=128),
            _words(),
        ),
    ),
    "performer_pytorch PerformerLM": (
        "performer_pytorch",
        lambda m: (m.PerformerLM(num_tokens=1000, max_seq_len=128, dim=256, depth=2, heads=4, causal=False), _words()),
    ),
    "linformer LinformerLM": (
        "linformer",
        lambda m: (m.LinformerLM(num_tokens=1000, dim=256, seq_len=128, depth=2, heads=4, k=32), _words()),
    ),
    "nystrom_attention Nystromformer": (
        "nystrom_attention",
        lambda m: (m.Nystromformer(dim=256, depth=2, heads=4, num_landmarks=32), torch.rand(1, 128, 256)),
    ),
    "conformer Conformer": (
        "conformer",
        lambda m: (m.Conformer(dim=256, depth=2, heads=4, dim_head=64), torch.rand(1, 100, 256)),
    ),
    "mlp_mixer_pytorch MLPMixer": (
        "mlp_mixer_pytorch",
        lambda m: (m.MLPMixer(image_size=224, channels=3, patch_size=16, dim=256, depth=4, num_classes=1000), _image()),
    ),
    "denoising_diffusion_pytorch Unet": ("denoising_diffusion_pytorch", _denoiser),
    "denoising_diffusion_pytorch Unet1D": (
        "denoising_diffusion_pytorch",
        lambda m: (m.Unet1D(dim=32, dim_mults=(1, 2, 4), channels=8), (torch.rand(1, 8, 128), torch.zeros(1))),
    ),
    "efficientnet_pytorch b1": (
        "efficientnet_pytorch",
        lambda m: (m.EfficientNet.from_name("efficientnet-b1"), _image(240)),
    ),
    "facenet_pytorch InceptionResnetV1": (
        "facenet_pytorch",
        lambda m: (m.InceptionResnetV1(classify=True, num_classes=100), _image(160)),
    ),
    "facenet_pytorch PNet": ("facenet_pytorch", lambda m: (m.PNet(pretrained=False), _image(64))),
    "segment_anything image encoder": (
        "segment_anything",
        lambda m: (m.sam_model_registry["vit_b"]().image_encoder, _image(1024)),
    ),
    "segment_anything mask decoder": (
        "segment_anything",
        lambda m: (
            m.sam_model_registry["vit_b"]().mask_decoder,
            {
                "image_embeddings": torch.rand(1, 256, 64, 64),
                "image_pe": torch.rand(1, 256, 64, 64),
                "sparse_prompt_embeddings": torch.rand(1, 2, 256),
                "dense_prompt_embeddings": torch.rand(1, 256, 64, 64),
                "multimask_output": True,
            },
        ),
    ),
    "demucs Demucs": (
        "demucs.demucs",
        lambda m: (m.Demucs(["drums", "voice"], depth=4, channels=16), torch.rand(1, 2, 44100)),
    ),
    "demucs HTDemucs": (
        "demucs.htdemucs",
        lambda m: (m.HTDemucs(["drums", "voice"], segment=2, channels=16), torch.rand(1, 2, 88200)),
    ),
    "vector_quantize_pytorch FSQ": (
        "vector_quantize_pytorch",
        lambda m: (m.FSQ(levels=[8, 5, 5, 5], dim=64), torch.rand(1, 128, 64)),
    ),
    "vector_quantize_pytorch VectorQuantize": (
        "vector_quantize_pytorch",
        lambda m: (m.VectorQuantize(dim=64, codebook_size=512).eval(), torch.rand(1, 128, 64)),
    ),
    "snntorch Leaky": ("snntorch", _spiking),
    "torchdiffeq rk4": ("torchdiffeq", lambda m: (_Ode(m), torch.rand(1, 16))),
    "gpytorch RBFKernel": ("gpytorch", _gaussian_process),
    "normflows NormalizingFlow": ("normflows", _flow),
    "pytorch_tcn TCN": ("pytorch_tcn", lambda m: (m.TCN(16, [32, 32, 32]), torch.rand(1, 16, 100))),
    "ncps CfC": ("ncps.torch", lambda m: (m.CfC(16, 32), torch.rand(1, 20, 16))),
    "ncps LTC": ("ncps.torch", lambda m: (m.LTC(16, 32), torch.rand(1, 8, 16))),
    "mambapy Mamba": (
        "mambapy.mamba",
        lambda m: (m.Mamba(m.MambaConfig(d_model=128, n_layers=2)), torch.rand(1, 64, 128)),
    ),
    "xlstm mLSTM": ("xlstm", _xlstm),
    "local_attention LocalTransformer": (
        "local_attention",
        lambda m: (
            m.LocalTransformer(num_tokens=1000, dim=256, depth=2, max_seq_len=256, local_attn_window_size=64),
            _words(),
        ),
    ),
    "pyro ConditionalAutoRegressiveNN": (
        "pyro.nn",
        lambda m: (m.ConditionalAutoRegressiveNN(8, 4, [64, 64]), (torch.rand(1, 8), torch.rand(1, 4))),
    ),
}

ALL: dict[str, Callable[[], dict[str, Build]]] = {
    "kornia": _kornia,
    "open_clip": _open_clip,
    "pytorchvideo": _video,
    "neuraloperator": _operators,
    "torchrl": _agents,
    "deepctr_torch": _recommenders,
    "pretrainedmodels": _older_images,
    "litgpt": _litgpt,
    "smaller libraries": _small_libraries,
}
