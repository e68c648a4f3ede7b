#!/usr/bin/env python3
"""The cost curve of fan-out: runs `guildhall-bench fanout` at several sizes and shares of passive sessions, and draws it.

    bench/plot_fanout.py run PROGRAM OUT.ndjson [--sessions 1000,10000,100000] [--passive 0,0.5,0.9,0.99]
                             [--rate 50] [--seconds 40]
    bench/plot_fanout.py draw IN.ndjson OUT.svg

Each point is a process of its own. `run` appends, so that it can be taken up again; of two lines about the same point
`draw` takes the later.
"""

import argparse
import json
import math
import subprocess
import sys

# The published result: with 90 % of the sessions passive, fan-out is about 90 % cheaper.
PUBLISHED = (0.9, 0.1)

WIDTH, HEIGHT = 980, 430
PANEL = {"width": 370, "height": 290, "top": 70}
LEFTS = (80, 560)
COLOURS = ["#4c78a8", "#e45756", "#54a24b", "#b279a2"]
FONT = 'font-family="system-ui, sans-serif"'


def run(args):
    for sessions in args.sessions:
        for passive in args.passive:
            events = round(args.rate * args.seconds)
            command = [args.program, "fanout", "--sessions", str(sessions), "--passive", str(passive)]
            command += ["--events", str(events), "--rate", str(args.rate), "--no-memory", "--json"]
            print(" ".join(command), file=sys.stderr)
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            with open(args.out, "a", encoding="utf-8") as out:
                out.write(done.stdout)


def points_of(path):
    """CPU in microseconds per event, by passive share and sessions. Runs at other rates are not comparable."""
    points = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            found = json.loads(line)
            points[(found["passive"], found["sessions"])] = found["cpu_us_per_event"]
    return points


class Panel:
    """A frame with two axes; values are placed by functions from 0 to 1."""

    def __init__(self, left, title, x_label, y_label):
        self.left, self.bottom = left, PANEL["top"] + PANEL["height"]
        self.parts = [
            text(left + PANEL["width"] / 2, PANEL["top"] - 22, title, size=15, weight="600"),
            text(left + PANEL["width"] / 2, self.bottom + 42, x_label),
            f'<text x="{left - 52}" y="{PANEL["top"] + PANEL["height"] / 2}" {FONT} font-size="13" text-anchor="middle" '
            f'transform="rotate(-90 {left - 52} {PANEL["top"] + PANEL["height"] / 2})">{y_label}</text>',
            f'<rect x="{left}" y="{PANEL["top"]}" width="{PANEL["width"]}" height="{PANEL["height"]}" fill="none" '
            'stroke="#888"/>',
        ]

    def at(self, x, y):
        return self.left + x * PANEL["width"], self.bottom - y * PANEL["height"]

    def x_tick(self, x, label):
        px, _ = self.at(x, 0)
        self.parts.append(f'<line x1="{px}" y1="{self.bottom}" x2="{px}" y2="{PANEL["top"]}" stroke="#ddd"/>')
        self.parts.append(text(px, self.bottom + 18, label, size=12))

    def y_tick(self, y, label):
        px, py = self.at(0, y)
        self.parts.append(f'<line x1="{px}" y1="{py}" x2="{px + PANEL["width"]}" y2="{py}" stroke="#ddd"/>')
        self.parts.append(text(px - 8, py + 4, label, size=12, anchor="end"))

    def line(self, places, colour, dash=""):
        at = " ".join(f"{x:.1f},{y:.1f}" for x, y in (self.at(*place) for place in places))
        dash = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<polyline points="{at}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')

    def dots(self, places, colour, title):
        for place, label in places:
            x, y = self.at(*place)
            self.parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"><title>{title}: {label}</title></circle>'
            )

    def key(self, row, colour, label, x=0.04, top=0.95):
        px, py = self.at(x, top)
        py += row * 18
        self.parts.append(f'<rect x="{px}" y="{py - 9}" width="12" height="10" fill="{colour}"/>')
        self.parts.append(text(px + 18, py, label, size=12, anchor="start"))


def text(x, y, words, size=13, anchor="middle", weight="400"):
    return f'<text x="{x}" y="{y}" {FONT} font-size="{size}" font-weight="{weight}" text-anchor="{anchor}">{words}</text>'


def percent(share):
    return f"{share * 100:g} %"


def thousands(count):
    return f"{count // 1_000_000} M" if count >= 1_000_000 else f"{count // 1000} k" if count >= 1000 else str(count)


def micros(us):
    return f"{us / 1e6:g} s" if us >= 1e6 else f"{us / 1e3:g} ms" if us >= 1e3 else f"{us:g} µs"


def against_sessions(points):
    """Both axes logarithmic."""
    panel = Panel(LEFTS[0], "CPU per event against sessions", "sessions", "CPU per event, all threads")
    sizes = sorted({sessions for _, sessions in points})
    low, high = math.log10(sizes[0]), math.log10(max(sizes[-1], sizes[0] * 10))
    floor, top = math.floor(math.log10(min(points.values()))), math.ceil(math.log10(max(points.values())))
    place = lambda sessions, us: (
        0.05 + 0.9 * (math.log10(sessions) - low) / (high - low),
        (math.log10(us) - floor) / max(top - floor, 1),
    )
    for sessions in sizes:
        panel.x_tick(place(sessions, 10**floor)[0], thousands(sessions))
    for power in range(floor, top + 1):
        panel.y_tick((power - floor) / max(top - floor, 1), micros(10**power))
    for row, share in enumerate(sorted({share for share, _ in points})):
        colour = COLOURS[row % len(COLOURS)]
        line = [(sessions, points[(share, sessions)]) for sessions in sizes if (share, sessions) in points]
        panel.line([place(*point) for point in line], colour)
        panel.dots([(place(*point), f"{point[1]:.1f} µs") for point in line], colour, percent(share))
        panel.key(row, colour, f"{percent(share)} passive")
    return panel.parts


def against_share(points):
    """As a share of the cost without passive sessions."""
    panel = Panel(LEFTS[1], "… against the share of passive sessions", "passive sessions", "of the cost with none passive")
    for tick in range(0, 6):
        panel.x_tick(tick / 5, percent(tick / 5))
        panel.y_tick(tick / 5 / 1.1, percent(tick / 5))
    place = lambda share, part: (share, min(part, 1.1) / 1.1)
    panel.line([place(0, 1), place(1, 0)], "#999", dash="5 4")
    row = 0
    for sessions in sorted({sessions for _, sessions in points}):
        whole = points.get((0.0, sessions))
        line = sorted((share, us / whole) for (share, of), us in points.items() if of == sessions) if whole else []
        if len(line) < 2:
            continue
        colour = COLOURS[row % len(COLOURS)]
        panel.line([place(*point) for point in line], colour)
        panel.dots([(place(*point), percent(round(point[1], 3))) for point in line], colour, thousands(sessions))
        panel.key(row, colour, f"{thousands(sessions)} sessions", x=0.52)
        row += 1
    x, y = panel.at(*place(*PUBLISHED))
    panel.parts.append(f'<path d="M{x - 7} {y} L{x} {y - 7} L{x + 7} {y} L{x} {y + 7} Z" fill="#f2a900" stroke="#333"/>')
    panel.key(row, "#f2a900", "published: 90 % passive,", x=0.52)
    panel.parts.append(text(*offset(panel.at(0.52, 0.95), 18, (row + 1) * 18 - 2), "90 % cheaper", size=12, anchor="start"))
    panel.key(row + 2, "#999", "in proportion", x=0.52)
    return panel.parts


def offset(place, x, y):
    return place[0] + x, place[1] + y


def draw(args):
    points = points_of(args.data)
    parts = against_sessions(points) + against_share(points)
    with open(args.svg, "w", encoding="utf-8") as svg:
        svg.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">\n')
        svg.write(f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>\n')
        svg.write("\n".join(parts))
        svg.write("\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    numbers = lambda kind: lambda words: [kind(word) for word in words.split(",")]
    runs = commands.add_parser("run")
    runs.add_argument("program")
    runs.add_argument("out")
    runs.add_argument("--sessions", type=numbers(int), default=[1_000, 10_000, 100_000])
    runs.add_argument("--passive", type=numbers(float), default=[0.0, 0.5, 0.9, 0.99])
    runs.add_argument("--rate", type=float, default=50.0)
    runs.add_argument("--seconds", type=float, default=40.0)
    runs.set_defaults(do=run)
    draws = commands.add_parser("draw")
    draws.add_argument("data")
    draws.add_argument("svg")
    draws.set_defaults(do=draw)
    args = parser.parse_args()
    args.do(args)


if __name__ == "__main__":
    main()
