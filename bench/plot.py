"""Step curves over time as an SVG that needs nothing to be drawn with: axes, a grid, a legend. Light and dark alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 860, 340
LEFT, RIGHT, TOP, BOTTOM = 52, 16, 58, 46


@dataclass(frozen=True)
class Curve:
    """A value that changes at `points` (second, value) and stays in between."""

    name: str
    color: str
    points: Sequence[tuple[float, float]]
    is_filled: bool = False
    is_dashed: bool = False


@dataclass(frozen=True)
class Plot:
    """What is drawn: `seconds` wide and `most` high."""

    title: str
    curves: Sequence[Curve]
    seconds: float
    most: float

    def svg(self) -> str:
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
            f'font-size="12" role="img" aria-label="{escape(self.title)}">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
            f'<text x="{LEFT}" y="20" font-size="14" fill="#1a1a1a">{escape(self.title)}</text>',
            *self._grid(),
            *(self._curve(curve) for curve in self.curves),
            *self._legend(),
            "</svg>",
        ]
        return "\n".join(parts) + "\n"

    def _x(self, second: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * second / self.seconds, 1)

    def _y(self, value: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / self.most, 1)

    def _grid(self) -> list[str]:
        lines = []
        for value in range(0, int(self.most) + 1, 2):
            y = self._y(value)
            lines.append(f'<line x1="{LEFT}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}" stroke="#e4e4e4"/>')
            lines.append(f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end" fill="#555">{value}</text>')
        for second in range(0, int(self.seconds) + 1, 2):
            x = self._x(second)
            lines.append(f'<text x="{x}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle" fill="#555">{second}</text>')
        middle = (LEFT + WIDTH - RIGHT) / 2
        lines.append(f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle" fill="#555">seconds</text>')
        return lines

    def _curve(self, curve: Curve) -> str:
        steps = [f"M{self._x(curve.points[0][0])} {self._y(curve.points[0][1])}"]
        for second, value in curve.points[1:]:
            steps.append(f"H{self._x(second)}V{self._y(value)}")
        steps.append(f"H{self._x(self.seconds)}")
        path = "".join(steps)
        dashes = ' stroke-dasharray="5 4"' if curve.is_dashed else ""
        line = f'<path d="{path}" fill="none" stroke="{curve.color}" stroke-width="1.6"{dashes}/>'
        if not curve.is_filled:
            return line
        area = f"{path}V{self._y(0)}H{self._x(curve.points[0][0])}Z"
        return f'<path d="{area}" fill="{curve.color}" fill-opacity="0.18"/>\n{line}'

    def _legend(self) -> list[str]:
        lines, x = [], LEFT
        for curve in self.curves:
            dashes = ' stroke-dasharray="5 4"' if curve.is_dashed else ""
            lines.append(
                f'<line x1="{x}" y1="38" x2="{x + 22}" y2="38" stroke="{curve.color}" stroke-width="2"{dashes}/>'
            )
            lines.append(f'<text x="{x + 28}" y="42" fill="#333">{escape(curve.name)}</text>')
            x += 50 + 7 * len(curve.name)
        return lines
