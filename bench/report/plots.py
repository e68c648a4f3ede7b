"""Plots as inline SVG. They take their colours from the page, so that they fit light and dark."""
from html import escape

WIDTH, ROW_HEIGHT, LABEL_WIDTH, VALUE_WIDTH = 760, 26, 220, 170


def bars(title, rows, unit):
    """Horizontal bars. `rows`: label, value, text behind the bar, whether it is stressed."""
    height = 34 + ROW_HEIGHT * len(rows)
    largest = max(value for _, value, _, _ in rows) or 1
    room = WIDTH - LABEL_WIDTH - VALUE_WIDTH
    parts = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">']
    parts.append(f'<text x="0" y="16" class="title">{escape(title)}, {escape(unit)}</text>')
    for number, (label, value, text, is_stressed) in enumerate(rows):
        y = 30 + ROW_HEIGHT * number
        width = max(1, room * value / largest)
        kind = "bar own" if is_stressed else "bar"
        parts.append(f'<text x="{LABEL_WIDTH - 8}" y="{y + 14}" text-anchor="end">{escape(label)}</text>')
        parts.append(f'<rect x="{LABEL_WIDTH}" y="{y + 2}" width="{width:.1f}" height="{ROW_HEIGHT - 9}" class="{kind}"/>')
        parts.append(f'<text x="{LABEL_WIDTH + width + 6:.1f}" y="{y + 14}" class="value">{escape(text)}</text>')
    return "".join(parts) + "</svg>"


def lines(title, unit, series, labels):
    """Lines over the same places. `series`: name and values, between 0 and 100."""
    left, right, top, bottom, height = 44, 175, 30, 30, 260
    span_x, span_y = WIDTH - left - right, height - top - bottom
    parts = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">']
    parts.append(f'<text x="0" y="16" class="title">{escape(title)}, {escape(unit)}</text>')
    for share in (0, 25, 50, 75, 100):
        y = top + span_y * (1 - share / 100)
        parts.append(f'<line x1="{left}" x2="{left + span_x}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{share}</text>')
    for number, (name, values) in enumerate(series):
        at = [(left + span_x * i / (len(values) - 1), top + span_y * (1 - value / 100)) for i, value in enumerate(values)]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
        parts.append(f'<polyline points="{points}" class="line line{number}"/>')
        parts.append(f'<text x="{left + span_x + 8}" y="{at[-1][1] + 4:.1f}" class="value">{escape(name)}</text>')
    for i, label in labels:
        x = left + span_x * i / (len(series[0][1]) - 1)
        parts.append(f'<text x="{x:.1f}" y="{height - 6}" text-anchor="middle">{escape(label)}</text>')
    return "".join(parts) + "</svg>"


def waterfall(result):
    chosen = result["steps"][:-2]
    rows = [
        (step["name"], step["bytes"] / 1e6, f"{step['bytes'] / 1e6:,.0f} KB, −{step['saved']:.0f} %".replace("−0 %", "100 %"),
         step["saved"] >= 60)
        for step in chosen
    ]
    return bars("A sitting of a client, on average", rows, "KB; published −40 %; −60 % is the goal")


def codec(result):
    modes = [name for name in result["modes"] if name != "plain"]
    modes.sort(key=lambda name: result["modes"][name]["bytes_per_message"], reverse=True)
    rows = [
        (name, result["modes"][name]["bytes_per_message"],
         f"{result['modes'][name]['bytes_per_message']:.0f}, {result['modes'][name]['cpu_us_per_delivery']:.1f} µs",
         name.startswith("shared"))
        for name in modes
    ]
    return bars("One message on a connection", rows, "bytes, and CPU time")


def upgrades(result):
    hours = result["slabs"]["hours"]
    upgraded = [100 * hour["upgraded"] for hour in hours]
    kept = [100 * hour["upgraded"] for hour in result["kept_by_allocator"]["hours"]]
    used = [100 * hour["used_max"] for hour in hours]
    labels = [(i, f"{hour['hour']}:00") for i, hour in enumerate(hours) if i % 6 == 0]
    series = [("with slabs", upgraded), ("memory kept", kept), ("memory in use", used)]
    return lines("Connections with larger contexts over a day", "%", series, labels)


def day(result):
    hours = result["slabs"]["hours"]
    series = [
        ("with slabs", [100 * hour["upgraded"] for hour in hours]),
        ("system's allocator", [100 * hour["upgraded"] for hour in result["library"]["hours"]]),
        ("memory in use", [100 * hour["used_max"] for hour in hours]),
    ]
    labels = [(i, f"{hour['hour']}:00") for i, hour in enumerate(hours) if i % 6 == 0]
    return lines("Connections with larger contexts over a day", "%", series, labels)


def shares(results):
    rows = [
        (f"{100 * of['passive']:.0f} % passive", of["cpu_us_per_event"] / 1000, f"{of['cpu_us_per_event'] / 1000:.2f} ms", of["passive"] == 0.9)
        for of in results
    ]
    return bars("CPU time of an event in a guild of 100,000 sessions", rows, "ms")


def clients(result):
    """Each library's rate of the SDK's, on average over the rows in which it takes part."""
    rates = {}
    for row in result["rows"]:
        ours = row["results"].get("guildhall", {}).get("cpu")
        for name, of in row["results"].items():
            if ours and row["processing"] == "off" and name != "guildhall, not decoded":
                rates.setdefault(name, []).append(of["cpu"] / ours)
    rows = [(name, 100 * sum(of) / len(of), f"{100 * sum(of) / len(of):.0f} %", name == "guildhall") for name, of in rates.items()]
    return bars("Events per second of CPU time, processing switched off", sorted(rows, key=lambda row: -row[1]), "% of the SDK's, mean of the modes")
