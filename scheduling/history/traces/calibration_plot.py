"""The calibration plot, as SVG: the share of work that had started by the time that a forecast named.

A forecast names the times by which work starts with 10, 50 and 90 %. Between them the share is read on a straight line
over the logarithm of the wait. On the diagonal a share comes true exactly; above it work started earlier than said,
below it later. One line shows all forecasts, the others those with a short, middle or long forecast wait.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scheduling.history.forecast.calibration import GRAIN
from scheduling.history.forecast.scoring import LEVELS, ScoredForecast

_LABEL = "Shares of starts that forecasts named, and that came true"
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_LEFT, _TOP, _SIDE, _WIDTH, _HEIGHT = 62, 40, 320, 640, 420
_GROUPS = (
    ("all forecasts", "all", 0.0, math.inf),
    ("middle under 10 minutes", "short", 0.0, 600.0),
    ("10 minutes to 1 hour", "middle", 600.0, 3600.0),
    ("1 hour or more", "long", 3600.0, math.inf),
)
_STYLE = """
  text { font: 13px sans-serif; fill: #1f2937 } .axis { stroke: #6b7280; fill: none } .grid { stroke: #e5e7eb }
  .all { stroke: #111827; fill: #111827 } .short { stroke: #1d4ed8; fill: #1d4ed8 }
  .middle { stroke: #b45309; fill: #b45309 } .long { stroke: #be123c; fill: #be123c }
  polyline { fill: none !important; stroke-width: 2 } .back { fill: #ffffff }
  @media (prefers-color-scheme: dark) {
    text { fill: #e5e7eb } .axis { stroke: #9ca3af } .grid { stroke: #374151 } .back { fill: #111827 }
    .all { stroke: #f9fafb; fill: #f9fafb } .short { stroke: #93c5fd; fill: #93c5fd }
    .middle { stroke: #fcd34d; fill: #fcd34d } .long { stroke: #fda4af; fill: #fda4af }
  }
"""


def observed_shares(forecasts: Sequence[ScoredForecast]) -> list[float]:
    """For each of `SHARES`, the share of forecasts whose work had started by the time with that share."""
    counts = [0] * len(SHARES)
    for forecast in forecasts:
        for at, share in enumerate(SHARES):
            counts[at] += forecast.wait <= _time_with(forecast.quantiles, share)
    return [count / len(forecasts) for count in counts]


def _time_with(quantiles: Sequence[float], share: float) -> float:
    above = next(at for at, level in enumerate(LEVELS) if share <= level)
    if share == LEVELS[above]:
        return quantiles[above]
    part = (share - LEVELS[above - 1]) / (LEVELS[above] - LEVELS[above - 1])
    low, high = (math.log(quantiles[at] + GRAIN) for at in (above - 1, above))
    return math.exp(low + part * (high - low)) - GRAIN


def calibration_svg(forecasts: Sequence[ScoredForecast]) -> str:
    """The plot as one SVG file; groups without forecasts have no line."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{_LABEL}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="back" width="{_WIDTH}" height="{_HEIGHT}"/>',
        f'<text x="{_LEFT}" y="22">Share of work that had started by the time with the forecast share</text>',
    ]
    for tick in range(0, 11, 2):
        x, y = _x(tick / 10), _y(tick / 10)
        parts += [
            f'<line class="grid" x1="{x}" y1="{_TOP}" x2="{x}" y2="{_TOP + _SIDE}"/>',
            f'<line class="grid" x1="{_LEFT}" y1="{y}" x2="{_LEFT + _SIDE}" y2="{y}"/>',
            f'<text x="{x}" y="{_TOP + _SIDE + 18}" text-anchor="middle">{tick * 10} %</text>',
            f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{tick * 10} %</text>',
        ]
    parts.append(f'<line class="axis" stroke-dasharray="5 4" x1="{_x(0)}" y1="{_y(0)}" x2="{_x(1)}" y2="{_y(1)}"/>')
    parts.append(f'<text x="{_LEFT + _SIDE / 2}" y="{_HEIGHT - 20}" text-anchor="middle">forecast share</text>')
    rows = 0
    for label, style, least, most in _GROUPS:
        chosen = [each for each in forecasts if least <= each.quantiles[1] < most]
        if not chosen:
            continue
        points = list(zip(SHARES, observed_shares(chosen), strict=True))
        line = " ".join(f"{_x(share)},{_y(found)}" for share, found in points)
        parts.append(f'<polyline class="{style}" points="{line}"/>')
        parts += [f'<circle class="{style}" cx="{_x(share)}" cy="{_y(found)}" r="3"/>' for share, found in points]
        y = _TOP + 20 + 44 * rows
        parts += [
            f'<rect class="{style}" x="{_LEFT + _SIDE + 24}" y="{y - 10}" width="12" height="12"/>',
            f'<text x="{_LEFT + _SIDE + 44}" y="{y}">{label}</text>',
            f'<text x="{_LEFT + _SIDE + 44}" y="{y + 18}">{len(chosen):,} forecasts</text>',
        ]
        rows += 1
    return "\n".join([*parts, "</svg>", ""])


def _x(share: float) -> float:
    return round(_LEFT + _SIDE * share, 1)


def _y(share: float) -> float:
    return round(_TOP + _SIDE * (1 - share), 1)
