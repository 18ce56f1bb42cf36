"""Reports as files: what they say, that nothing in them is taken for markup or fetched, what is drawn."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from html.parser import HTMLParser
from io import BytesIO

import numpy as np
import pytest
from matplotlib.image import imread

from kvcm_platform.core.errors import DomainError
from kvcm_platform.optimizer.answers.hot_prefixes import hot_prefixes
from kvcm_platform.optimizer.curve import Curve, Unit
from kvcm_platform.optimizer.report import (
    Bars,
    Line,
    Quota,
    Report,
    Scheme,
    Table,
    Worth,
    curves_png,
    report_html,
    report_text,
    reuse_bars,
)
from kvcm_platform.optimizer.report.axis import capacity_axis, money_ticks, rate_ticks
from kvcm_platform.optimizer.report.bars import bars_svg, doublings
from kvcm_platform.optimizer.report.svg import hit_rate_svg
from kvcm_platform.optimizer.report.tables import points_table
from kvcm_platform.optimizer.roi import GIB, PRESETS, CostModel, best_capacity, rank, roi
from tests.support.optimizer_traces import Turn, trace_of

from .curves_by_hand import curve

MARKUP = '<script>alert("x")</script>'


def dense(*, block_bytes: int = GIB) -> Curve:
    capacities = np.unique(np.geomspace(1, 20_000, 300).astype(np.int64))
    hits = (4000 * (1 - np.exp(-capacities / 3000))).astype(np.int64)
    return curve(
        capacities.tolist(),
        hits.tolist(),
        blocks=10_000,
        block_bytes=block_bytes,
        block_tokens=512,
        requests=500,
        distinct_blocks=20_000,
        positions=(hits * 512 * 2000.0).tolist(),
    )


def report() -> Report:
    whole = dense()
    bound = curve(
        [1000, 5000], [3000, 3900], blocks=10_000, block_bytes=GIB, distinct_blocks=20_000, policy="belady"
    )
    cost = CostModel(model=PRESETS["qwen3-8b"], gpu_hour_price=2500.0)
    return Report(
        title=f"Chat {MARKUP}",
        lines=(Line(f"LRU {MARKUP}", whole), Line("bound", bound, is_bound=True)),
        made_at="30 November",
        facts=(("instance", MARKUP),),
        quota=Quota(size_bytes=3000 * GIB),
        worth=Worth("LRU", roi(whole, cost), best_capacity(whole, cost)),
        scenarios=tuple(rank({MARKUP: whole, "other": curve([1], [0], block_bytes=1)}, cost)),
        prefixes=hot_prefixes(trace_of([Turn([1, 2]), Turn([1, 3])]), nodes=5),
        tables=(Table(MARKUP, ("a", "b"), ((MARKUP, "2"),), (False, True)),),
        notes=("line 5 was skipped",),
    )


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.open: list[str] = []
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        if tag not in {"meta", "br"}:
            self.open.append(tag)
        self.outside += [value for name, value in attrs if name in {"src", "href", "xlink:href"} and value]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_page_stands_alone_and_takes_no_text_for_markup() -> None:
    page = report_html(report())
    tags = Tags()
    tags.feed(page)

    assert not tags.open
    assert "script" not in tags.names
    assert tags.names.count("svg") >= 2
    assert not tags.outside
    assert not re.search(r"@import|url\((?!#)|https?:", page)
    assert page.count("&lt;script&gt;") >= 6
    assert "prefers-color-scheme: dark" in page


def test_words_in_a_picture_are_no_markup() -> None:
    picture = hit_rate_svg(
        [Line(MARKUP, dense())], block_bytes=None, quota=Quota(size_blocks=9000, label=MARKUP)
    )
    tags = Tags()
    tags.feed(picture)

    assert "script" not in tags.names
    assert picture.count("&lt;script&gt;") == 2


@pytest.mark.parametrize("form", [report_html, report_text])
def test_a_report_says_what_the_curves_say(form: object) -> None:
    text = form(report())  # type: ignore[operator]
    whole = dense()
    within = max(i for i, capacity in enumerate(whole.capacities) if capacity <= 3000)
    for words in (
        f"At the quota of 2.93 TiB (3,000 blocks): {whole.hit_blocks[within] / 10_000:.1%}",
        "No policy can hit more than 30.0% at 1,000 blocks",
        "Best capacity",
        "line 5 was skipped",
        "Qwen3 8B",
        "Hot prefixes",
    ):
        assert words in text


def test_rows_are_where_all_lines_have_points() -> None:
    table = points_table(
        [
            Line("lru", curve(range(1, 101), range(1, 101), blocks=200)),
            Line("fifo", curve([10, 50], [4, 30], blocks=200)),
            Line("late", curve([50], [60], blocks=200)),
            Line("bytes", curve([10, 50], [4, 30], blocks=200, unit=Unit.BYTES)),
        ],
        None,
    )
    assert [row[0] for row in table.rows] == ["50 blocks"]
    assert table.rows[0][2:6] == ("25.00%", "15.00%", "30.00%", "–")
    few = points_table(
        [Line("lru", curve(range(1, 101), range(1, 101))), Line("fifo", curve([10, 50], [4, 30]))], None
    )
    assert [row[2:4] for row in few.rows] == [("10.00%", "4.00%"), ("50.00%", "30.00%")]
    assert points_table([Line("a", curve([5], [1])), Line("b", curve([9], [1]))], None).rows[0][3] == "–"


@pytest.mark.parametrize("scheme", list(Scheme))
def test_pictures_have_the_size_asked_for_and_the_colours_of_the_scheme(scheme: Scheme) -> None:
    png = curves_png(
        [Line("LRU", dense()), Line("bound", dense(), is_bound=True)],
        quota=Quota(size_blocks=2000),
        scheme=scheme,
        width=800,
        height=500,
    )

    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", png[16:24]) == (800, 500)
    pixels = imread(BytesIO(png), format="png")
    corner = tuple(round(float(part) * 255) for part in pixels[0, 0, :3])
    assert corner == {Scheme.LIGHT: (255, 255, 255), Scheme.DARK: (0x15, 0x1B, 0x24)}[scheme]
    # The line is there, in its colour, from the left to the right.
    colour = np.array({Scheme.LIGHT: (0x2B, 0x50, 0xC8), Scheme.DARK: (0x86, 0xA9, 0xFF)}[scheme]) / 255
    drawn = np.flatnonzero((np.abs(pixels[:, :, :3] - colour).max(axis=2) < 0.02).any(axis=0))
    assert drawn.min() < 120 and drawn.max() > 700


def test_curves_of_unknown_block_size_are_drawn_in_blocks() -> None:
    unknown = Line("LRU", dense(block_bytes=0))
    axis = capacity_axis([unknown], block_bytes=None, quota=None)
    assert not axis.in_bytes
    assert curves_png([unknown])[:4] == b"\x89PNG"

    named = capacity_axis([unknown], block_bytes=1024, quota=Quota(size_blocks=5))
    assert named.in_bytes
    assert named.high == 20_000 * 1024
    assert named.of_quota(Quota(size_blocks=5)) == 5120


def test_what_cannot_be_drawn_is_refused() -> None:
    one = Line("LRU", dense())
    for lines, options, field in (
        ([], {}, "curves"),
        ([one] * 9, {}, "curves"),
        ([Line("empty", curve([], []))], {}, "curves"),
        ([Line("nothing", curve([0], [0]))], {}, "curves"),
        ([one], {"width": 10}, "width"),
        ([one], {"height": 100_000}, "height"),
    ):
        with pytest.raises(DomainError) as refused:
            curves_png(lines, **options)  # type: ignore[arg-type]
        assert refused.value.field == field
    with pytest.raises(DomainError):
        Report("too many", tuple([one] * 9))


def test_a_report_without_hits_or_worth_is_a_report() -> None:
    nothing = curve([1, 2, 4], [0, 0, 0], block_bytes=GIB)
    cost = CostModel(model=PRESETS["qwen3-8b"])
    bare = Report(
        "nothing",
        (Line("LRU", nothing),),
        worth=Worth("LRU", roi(nothing, cost), best_capacity(nothing, cost)),
    )

    assert "No capacity saves what it costs" in report_html(bare)
    assert report_text(replace(bare, worth=None)).startswith("nothing\n")
    assert "How it was counted" in report_html(Report("no curve at all", ()))


def test_bars_are_doublings_of_the_value() -> None:
    # Above 0 up to 1, up to 2, up to 3, 4, 5, 8, 9.
    bars = Bars("uses", (1, 2, 3, 4, 5, 8, 9), (10, 20, 3, 4, 50, 6, 7), "uses")
    assert doublings(bars) == [("1", 10), ("2", 20), ("4", 7), ("8", 56), ("16", 7)]
    drawn = bars_svg(bars)
    heights = [float(height) for height in re.findall(r'class="bar"[^>]*height="([\d.]+)"', drawn)]
    assert len(heights) == 5
    assert [height / heights[0] for height in heights] == pytest.approx([1, 2, 0.7, 5.6, 0.7], abs=0.05)

    times = Bars("time", (0, 1_000_000, 60_000_000), (1, 2, 3), "us")
    assert doublings(times)[0] == ("131 ms", 1)
    assert sum(count for _, count in doublings(times)) == 6
    sizes = reuse_bars({"reuse_distance": {"edges": [GIB], "counts": [5]}}, "bytes")
    assert doublings(sizes[0]) == [("1 GiB", 5)]
    assert reuse_bars({"reuse_time": {"edges": [1], "counts": [0]}, "reuse_distance": None}) == ()


@pytest.mark.parametrize(
    ("highest", "last"), [(0.0, 0.01), (0.05, 0.05), (0.37, 0.4), (0.601, 0.8), (0.99, 1.0), (1.0, 1.0)]
)
def test_rates_end_at_a_round_one(highest: float, last: float) -> None:
    ticks = rate_ticks(highest)
    assert ticks[-1] == pytest.approx(last)
    assert ticks[0] == 0 and len(ticks) <= 8


def test_money_begins_at_zero_where_none_is_lost() -> None:
    assert money_ticks(12.0, 95.0) == [0, 20, 40, 60, 80, 100]
    assert money_ticks(-12.0, 95.0)[0] == -20
    assert money_ticks(0.0, 0.0)[0] == 0
