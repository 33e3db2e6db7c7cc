"""What the tests of transformers share: published counts, models, estimates."""

from functools import cache

import numpy as np

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from analysis.model.ir.workload import Workload
from hardware.device_catalog import load_device
from tests.models import load_once as workload

# Parameters as published: elements of the tensors on the model's Hugging Face page (safetensors header or state
# dict), or the table of the authors' README; the configurations they follow from are in transformers.toml.
PUBLISHED = {
    "gpt2": 124_439_808, "gpt2_medium": 354_823_168, "gpt2_large": 774_030_080, "gpt2_xl": 1_557_611_200,
    "opt_125m": 125_239_296, "opt_1_3b": 1_315_758_080, "opt_6_7b": 6_658_473_984,
    "pythia_70m": 70_426_624, "pythia_160m": 162_322_944, "pythia_410m": 405_334_016,
    "pythia_1_4b": 1_414_647_808, "pythia_6_9b": 6_857_302_016, "pythia_12b": 11_846_072_320,
    "llama2_7b": 6_738_415_616, "llama2_13b": 13_015_864_320, "llama2_70b": 68_976_648_192,
    "llama3_8b": 8_030_261_248, "llama3_70b": 70_553_706_496,
    "llama3_2_1b": 1_235_814_400, "llama3_2_3b": 3_212_749_824,
    "mistral_7b": 7_241_732_096, "mixtral_8x7b": 46_702_792_704, "mixtral_8x22b": 140_620_634_112,
    "deepseek_moe_16b": 16_375_728_128,
    "qwen2_0_5b": 494_032_768, "qwen2_1_5b": 1_543_714_304, "qwen2_7b": 7_615_616_512, "qwen2_72b": 72_706_203_648,
    "qwen3_8b": 8_190_735_360, "qwen3_30b_a3b": 30_532_122_624,
    "gemma_2b": 2_506_172_416, "gemma_7b": 8_537_680_896, "phi_2": 2_779_683_840,
    "llama3_405b": 405_853_388_800, "codellama_7b": 6_738_546_688, "codellama_13b": 13_016_028_160,
    "codellama_34b": 33_743_970_304, "codellama_70b": 68_976_910_336, "llama_33b": 32_528_943_616,
    "tinyllama_1_1b": 1_100_048_384, "falcon_180b": 179_522_565_120, "falcon_40b": 41_303_293_952,
    "gptj_6b": 6_050_882_784, "phi3_mini": 3_821_079_552, "phi3_medium": 13_960_238_080, "phi4": 14_659_507_200,
    "mistral_nemo_12b": 12_247_782_400, "mistral_large_123b": 122_610_069_504, "starcoder2_3b": 3_030_371_328,
    "starcoder2_15b": 15_957_889_024, "qwen2_5_3b": 3_085_938_688, "qwen2_5_14b": 14_770_033_664,
    "qwen2_5_32b": 32_763_876_352, "qwen1_5_7b": 7_721_324_544, "qwen3_0_6b": 596_049_920,
    "qwen3_4b": 4_022_468_096, "qwen3_14b": 14_768_307_200, "qwen3_32b": 32_762_123_264,
    "qwen3_235b_a22b": 235_093_634_560, "gemma2_2b": 2_614_341_888, "gemma2_9b": 9_241_705_984,
    "gemma2_27b": 27_227_128_320, "gemma3_1b": 999_885_952, "gpt_oss_20b": 20_914_757_184,
    "gpt_oss_120b": 116_829_156_672, "deepseek_v2_lite": 15_706_484_224, "deepseek_v2": 235_741_434_880,
    "deepseek_v3": 671_026_419_200, "opt_2_7b": 2_651_596_800, "opt_13b": 12_853_473_280,
    "opt_30b": 29_974_540_288, "pythia_2_8b": 2_775_208_960, "pythia_1b": 1_011_781_632,
    "bloom_7b1": 7_069_016_064, "mistral_small_24b": 23_572_403_200, "yi_34b": 34_388_917_248,
    "bert_base": 109_482_240, "bert_large": 335_141_888,
    "yi_6b": 6_061_035_520, "smollm2_135m": 134_515_008, "smollm2_360m": 361_821_120, "smollm2_1_7b": 1_711_376_384,
    "ministral_8b": 8_019_808_256, "phi4_mini": 3_836_021_760, "glm4_9b": 9_399_951_360, "olmo2_7b": 7_298_617_344,
    "gpt_neox_20b": 20_554_567_680, "distilbert_base": 66_362_880, "minilm_l6": 22_713_216, "minilm_l12": 33_360_000,
    "nemotron_super_49b": 49_867_145_216, "xlm_roberta_base": 278_043_648, "xlm_roberta_large": 559_890_432,
}  # fmt: skip
# Known to the digits that the papers print: total and active parameters, billions.
ROUNDED = {
    "gemma4_31b": (30.7, 30.7),
    "openvla_7b": (6.7, 6.7),
    "gemma4_26b_a4b": (25.2, 3.8),
    "gemma3n_e4b": (6.8, 6.8),
    "qwen3_5_27b": (26.9, 26.9),
    "qwen3_5_122b_a10b": (122.1, 9.8),
    "qwen3_5_397b_a17b": (396.3, 17.3),
    "glm_5_2": (743.4, 41.3),
    "deepseek_v4_flash": (284.3, 13.8),
    "deepseek_v4_pro": (1573.0, 49.8),
    "kimi_k3": (2779.5, 105.4),
    "minimax_m3": (426.2, 26.0),
    "step_3_7_flash": (195.8, 10.9),
    "nemotron_3_ultra_550b_a55b": (549.3, 56.1),
    "qwen3_5_9b": (9.0, 9.0),
    "qwen3_5_35b_a3b": (34.7, 3.5),
    "deepseek_v3_2": (671.9, 38.4),
    "glm_5": (743.9, 41.8),
    "nemotron_3_super_120b_a12b": (120.7, 12.8),
    "llama4_scout": (107.8, 17.2),
    "llama4_maverick": (400.7, 17.2),
    "olmoe_1b_7b": (6.9, 1.3),
    "deepseek_moe_16b": (16.4, 2.8),
    "mixtral_8x7b": (46.7, 12.9),
    "gemma3_270m": (0.3, 0.3),
    "gemma3_4b": (3.9, 3.9),
    "gemma3_12b": (11.8, 11.8),
    "gemma3_27b": (27.0, 27.0),
    "nemotron4_15b": (15.6, 15.6),
    "nemotron4_340b": (341.0, 341.0),
    "nemotron_nano_9b_v2": (8.9, 8.9),
    "nemotron_3_nano_30b_a3b": (31.6, 3.6),
    "qwen3_coder_480b_a35b": (480.2, 35.5),
    "kimi_k2": (1026.4, 32.9),
    "minimax_m2": (228.7, 11.0),
    "qwen3_1_7b": (1.7, 1.7),
    "deepseek_7b": (6.9, 6.9),
    "deepseek_coder_6_7b": (6.7, 6.7),
    "deepseek_coder_33b": (33.3, 33.3),
    "granite3_2b": (2.5, 2.5),
    "granite3_8b": (8.2, 8.2),
    "smollm3_3b": (3.1, 3.1),
    "olmo2_13b": (13.7, 13.7),
    "starcoder2_7b": (7.2, 7.2),
    "opt_66b": (65.7, 65.7),
    "mpt_7b": (6.6, 6.6),
    "glm4_5_air": (106.9, 13.4),
    "glm4_5": (352.8, 33.6),
}
# Parameters outside the embedding, from the same README of Pythia (its head counts as embedding too).
PYTHIA_BODY = {
    "pythia_70m": 18_915_328, "pythia_160m": 85_056_000, "pythia_410m": 302_311_424,
    "pythia_1_4b": 1_208_602_624, "pythia_6_9b": 6_444_163_072, "pythia_12b": 11_327_027_200,
}  # fmt: skip

SMALL = (
    "decoder:hidden=64,layers=2,heads=4,kv_heads=2,ffn=160,vocab=1000",
    "decoder:hidden=64,layers=2,heads=4,ffn=160,vocab=1000,gated=0,parallel=1,norm=layer,activation=gelu,tied=1",
    "decoder:hidden=64,layers=3,heads=4,ffn=96,vocab=1000,experts=8,active=2,shared_ffn=64,dense_layers=1",
    "decoder:hidden=64,layers=2,heads=4,ffn=96,vocab=1000,experts=4,active=1,qk_norm=head,position=none",
    "encoder:hidden=64,layers=2,heads=4,ffn=160,vocab=1000",
)


@cache
def run(
    name: str,
    on: str = "h100_sxm",
    batch: int = 1,
    precision: str = "bf16",
    execution: str = "auto",
    sequence: int | None = None,
    kv: int | None = None,
) -> Estimate:
    scenario = Scenario(batch, precision, execution, "nchw", sequence, kv)
    return estimate(workload(name), load_device(on), scenario)


def total(values: np.ndarray, model: Workload, batch: int = 1, **lengths: int) -> float:
    return float((values @ model.bound(**lengths).value_at(batch=batch)).sum())
