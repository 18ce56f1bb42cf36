"""Colours of reports: the same as the browser's (frontend/src/theme/tokens.ts)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Scheme(StrEnum):
    LIGHT = "light"
    DARK = "dark"


@dataclass(frozen=True, slots=True)
class Palette:
    page: str
    panel: str
    inset: str
    border: str
    text: str
    muted: str
    accent: str
    ok: str
    warn: str
    critical: str
    series: tuple[str, ...]


PALETTES: Mapping[Scheme, Palette] = {
    Scheme.LIGHT: Palette(
        page="#f4f6f9",
        panel="#ffffff",
        inset="#eceff4",
        border="#dde2ea",
        text="#131a24",
        muted="#535f70",
        accent="#2b50c8",
        ok="#12703f",
        warn="#865600",
        critical="#b4232b",
        series=(
            "#2b50c8",
            "#c2570c",
            "#0b7f6b",
            "#a03a86",
            "#8a6d00",
            "#1583b8",
            "#6b4a2b",
            "#5b6472",
        ),
    ),
    Scheme.DARK: Palette(
        page="#0d1117",
        panel="#151b24",
        inset="#1f2732",
        border="#29323f",
        text="#e7ebf1",
        muted="#9ba7b6",
        accent="#86a9ff",
        ok="#4fc98b",
        warn="#e9b955",
        critical="#ff8580",
        series=(
            "#86a9ff",
            "#f2a25c",
            "#45c9ae",
            "#e08cc6",
            "#e5cb4e",
            "#6cc5f0",
            "#c9a27c",
            "#a7b2c0",
        ),
    ),
}
