"""Sizes and prefill cost of models, against figures published elsewhere and a sum over single tokens."""

from __future__ import annotations

import pytest

from kvcm_platform.optimizer.roi import PRESETS, ModelShape, model_cost


@pytest.mark.parametrize(
    ("name", "kv_bytes", "billions"),
    [
        # 327,680 bytes a token: published for Llama 3.1 70B in 16 bits (2 x 80 x 8 x 128 x 2).
        ("llama-3.3-70b", 327_680, None),
        ("llama-3.1-8b", 131_072, None),
        # Non-embedding parameters of the model cards: 6.95 B, 31.2 B.
        ("qwen3-8b", 147_456, 6.95),
        ("qwen3-32b", 262_144, 31.2),
        # (512 + 64) x 61 x 2; 36.6 B active, of which 0.9 B are the output head.
        ("deepseek-v3", 70_272, 36.6 - 0.9),
    ],
)
def test_presets_have_the_published_sizes(name: str, kv_bytes: int, billions: float | None) -> None:
    preset = PRESETS[name]

    assert preset.kv_bytes_per_token == kv_bytes
    if billions is not None:
        parameters = (preset.flops_per_token - preset.flops_per_token_position) / 2
        assert parameters / 1e9 == pytest.approx(billions, rel=0.005)


def test_every_preset_says_where_its_shape_comes_from() -> None:
    assert all(preset.source and preset.title for preset in PRESETS.values())


def test_prefill_of_a_prompt_is_the_sum_over_its_tokens_and_what_each_attends_to() -> None:
    shape = ModelShape(layers=3, hidden=8, heads=4, kv_heads=2, head_size=2, feed_forward=16)
    cost = model_cost("tiny", shape)
    # By hand: queries 8x8, keys and values 8x4 each, output 8x8, three matrices of 8x16.
    parameters = 3 * (64 + 32 + 32 + 64 + 3 * 128)
    expected = 0
    for position in range(11):
        attended = position + 1
        expected += 2 * parameters + 3 * 4 * attended * (2 * 2 + 2 * 2)

    assert cost.prefill_flops(11) == expected
    assert cost.kv_bytes_per_token == 3 * 2 * (2 * 2) * 2
