"""What a model's KV cache weighs and what its prefill costs, from the shapes in its public configuration.

KV bytes of a token: for grouped attention 2 (key and value) x layers x KV heads x head size x bytes of a
number; for latent attention (MLA) layers x (rank of the latent + rotary part of the key) x bytes of a number.

Prefill of the token at position p (p tokens before it): 2 FLOP for every parameter that multiplies it, and
in every layer 2 FLOP for each query head and number of the key (scores) and of the value (sums), for each of
the p + 1 tokens attended to. So it is `flops_per_token + p * flops_per_token_position`. Embeddings multiply
nothing, and the output head runs for the last token of a prompt alone, which is never taken from a cache:
neither is counted. Norms, rotations and softmax are left out (below 1 %).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class ModelCost:
    """What `roi` needs to know of a model; entered freely, or taken from `PRESETS`.

    `kv_bytes_per_token` is that of all layers and heads together, as stored for one token.
    """

    name: str
    kv_bytes_per_token: float
    flops_per_token: float
    """FLOP to prefill a token at position 0."""
    flops_per_token_position: float
    """FLOP more for every token before it."""
    title: str = ""
    source: str = ""

    def prefill_flops(self, tokens: int) -> float:
        """FLOP of a prompt of so many tokens that nothing is cached of."""
        return self.flops_per_token * tokens + self.flops_per_token_position * tokens * (tokens - 1) / 2


@dataclass(frozen=True, slots=True)
class Experts:
    """Mixture of experts: `dense_layers` at the bottom have a plain feed-forward network instead."""

    size: int
    count: int
    used: int
    """A token, shared ones included."""
    dense_layers: int = 0


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """MLA: sizes as in the `config.json` of DeepSeek-V3."""

    query_rank: int
    kv_rank: int
    rope_size: int
    nope_size: int
    value_size: int


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Members of a Hugging Face `config.json`: num_hidden_layers, hidden_size, num_attention_heads, ..."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    feed_forward: int
    experts: Experts | None = None
    latent: LatentAttention | None = None

    @property
    def kv_numbers_per_token(self) -> int:
        if self.latent is not None:
            return self.layers * (self.latent.kv_rank + self.latent.rope_size)
        return 2 * self.layers * self.kv_heads * self.head_size

    @property
    def multiplied_parameters(self) -> int:
        """Parameters of all layers that one token is multiplied by: the active ones."""
        plain = 3 * self.hidden * self.feed_forward
        if self.experts is None:
            return self.layers * (self._attention_parameters + plain)
        experts = self.experts
        mixed = 3 * self.hidden * experts.size * experts.used + self.hidden * experts.count
        mixed_layers = self.layers - experts.dense_layers
        return self.layers * self._attention_parameters + experts.dense_layers * plain + mixed_layers * mixed

    @property
    def flops_per_attended_token(self) -> int:
        if self.latent is not None:
            sizes = self.latent.nope_size + self.latent.rope_size + self.latent.value_size
        else:
            sizes = 2 * self.head_size
        return 2 * self.layers * self.heads * sizes

    @property
    def _attention_parameters(self) -> int:
        if self.latent is None:
            return self.hidden * self.head_size * 2 * (self.heads + self.kv_heads)
        latent = self.latent
        queries = latent.query_rank * (self.hidden + self.heads * (latent.nope_size + latent.rope_size))
        keys = self.hidden * (latent.kv_rank + latent.rope_size)
        unfolded = latent.kv_rank * self.heads * (latent.nope_size + latent.value_size)
        return queries + keys + unfolded + self.heads * latent.value_size * self.hidden


def model_cost(
    name: str, shape: ModelShape, *, kv_number_bytes: float = 2, title: str = "", source: str = ""
) -> ModelCost:
    """`kv_number_bytes`: 2 for bfloat16, 1 for an FP8 cache (scales are not counted)."""
    attended = shape.flops_per_attended_token
    return ModelCost(
        name=name,
        kv_bytes_per_token=shape.kv_numbers_per_token * kv_number_bytes,
        flops_per_token=2.0 * shape.multiplied_parameters + attended,
        flops_per_token_position=float(attended),
        title=title or name,
        source=source,
    )


_QWEN = "config.json of Qwen/{}, as copied in citsjtu2020/LLM-Prof, sglang/Model_Config.md @ 8434c8d"
_DEEPSEEK_ATTENTION = LatentAttention(
    query_rank=1536, kv_rank=512, rope_size=64, nope_size=128, value_size=128
)

_SHAPES: dict[str, tuple[str, ModelShape, str]] = {
    "llama-3.1-8b": (
        "Llama 3.1 8B",
        ModelShape(32, 4096, 32, 8, 128, 14336),
        "config.json of meta-llama/Llama-3.1-8B, as copied in citsjtu2020/LLM-Prof, "
        "sglang/Model_Config.md @ 8434c8d",
    ),
    "llama-3.3-70b": (
        "Llama 3.3 70B",
        ModelShape(80, 8192, 64, 8, 128, 28672),
        "config.json of meta-llama/Llama-3.3-70B-Instruct, as copied in ai-dynamo/aiconfigurator, "
        "src/aiconfigurator/model_configs @ f577ab8",
    ),
    "qwen2.5-7b": (
        "Qwen2.5 7B",
        ModelShape(28, 3584, 28, 4, 128, 18944),
        _QWEN.format("Qwen2.5-7B"),
    ),
    "qwen3-8b": ("Qwen3 8B", ModelShape(36, 4096, 32, 8, 128, 12288), _QWEN.format("Qwen3-8B")),
    "qwen3-14b": ("Qwen3 14B", ModelShape(40, 5120, 40, 8, 128, 17408), _QWEN.format("Qwen3-14B")),
    "qwen3-32b": ("Qwen3 32B", ModelShape(64, 5120, 64, 8, 128, 25600), _QWEN.format("Qwen3-32B")),
    "qwen3-30b-a3b": (
        "Qwen3 30B-A3B",
        ModelShape(48, 2048, 32, 4, 128, 6144, experts=Experts(size=768, count=128, used=8)),
        _QWEN.format("Qwen3-30B-A3B"),
    ),
    "qwen3-235b-a22b": (
        "Qwen3 235B-A22B",
        ModelShape(94, 4096, 64, 4, 128, 12288, experts=Experts(size=1536, count=128, used=8)),
        "arguments of THUDM/slime, scripts/models/qwen3-235B-A22B.sh (94 layers, 64 heads, "
        "4 KV heads of 128, 128 experts of 1536, 8 used)",
    ),
    "deepseek-v3": (
        "DeepSeek V3 / R1",
        ModelShape(
            61,
            7168,
            128,
            128,
            128,
            18432,
            experts=Experts(size=2048, count=256, used=9, dense_layers=3),
            latent=_DEEPSEEK_ATTENTION,
        ),
        "config.json of deepseek-ai/DeepSeek-V3 (61 layers, kv_lora_rank 512, qk_rope_head_dim 64, "
        "128 heads, 256 experts of 2048, 8 used and 1 shared), checked against the 36.6 B "
        "active parameters of its README_WEIGHTS.md",
    ),
    "kimi-k2": (
        "Kimi K2",
        ModelShape(
            61,
            7168,
            64,
            64,
            128,
            18432,
            experts=Experts(size=2048, count=384, used=9, dense_layers=1),
            latent=_DEEPSEEK_ATTENTION,
        ),
        "config.json of moonshotai/Kimi-K2-Instruct, as copied in ai-dynamo/aiconfigurator, "
        "src/aiconfigurator/model_configs @ 821eb9a",
    ),
}

PRESETS: Mapping[str, ModelCost] = MappingProxyType(
    {
        name: model_cost(name, shape, title=title, source=source)
        for name, (title, shape, source) in _SHAPES.items()
    }
)
"""By name, with a bfloat16 cache."""
