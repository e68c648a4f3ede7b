"""The report as Markdown and as one HTML file. Figures that are worse than published come first."""
from html import escape

from experiments import LOWER

INTRODUCTION = (
    "Published figures of the systems that Guildhall learned from, and the same experiments done by Guildhall's benches. "
    "Ratios and bytes carry over to other machines; times do not. A figure is judged only where both sides measured the "
    "same quantity on comparable traffic."
)
STYLE = """
:root { color-scheme: light dark; --text: #1c1d21; --soft: #5f636d; --back: #fff; --line: #d9dce3; --bar: #a9b4c8; --own: #3563c9;
  --good: #1d7a43; --bad: #b3261e }
@media (prefers-color-scheme: dark) { :root { --text: #e7e9ee; --soft: #9aa1ad; --back: #16181d; --line: #333842; --bar: #56617a;
  --own: #7ea6ff; --good: #6fd194; --bad: #ff8a80 } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); max-width: 860px; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.7rem } h2 { font-size: 1.2rem; margin-top: 2.4rem } p { max-width: 70ch } .soft, small { color: var(--soft) }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums } th, td { padding: .3rem .6rem; text-align: right;
  border-bottom: 1px solid var(--line) } th:first-child, td:first-child { text-align: left } th { color: var(--soft); font-weight: 500 }
.good { color: var(--good) } .bad { color: var(--bad) } code { font: .85em ui-monospace, monospace; overflow-wrap: anywhere }
svg { width: 100%; height: auto; margin: 1rem 0; font: 13px system-ui, sans-serif } svg text { fill: var(--soft) }
svg .title, svg .value { fill: var(--text) } svg .bar { fill: var(--bar) } svg .own { fill: var(--own) } svg .grid { stroke: var(--line) }
svg .line { fill: none; stroke-width: 2 } svg .line0 { stroke: var(--own) } svg .line1 { stroke: var(--bad) } svg .line2 { stroke: var(--bar) }
""".strip()


def number(value):
    """Three significant digits, thousands separated."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if value == 0:
        return "0"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def judged(row, ours):
    """Label, published, ours, ratio, and whether ours is better (None: not judged)."""
    ratio = better = None
    if isinstance(row.published, (int, float)) and row.published and ours is not None:
        ratio = ours / row.published
    if row.better and isinstance(row.published, (int, float)) and ours is not None:
        better = ours <= row.published if row.better == LOWER else ours >= row.published
    return row.label, row.published, ours, row.unit, ratio, better


def rows_of(experiment, kept):
    """Worse ones first; otherwise in their order."""
    rows = [judged(row, row.find(kept["result"])) for row in experiment.rows]
    return sorted(rows, key=lambda row: row[-1] is not False)


def ratio_text(ratio):
    return "" if ratio is None else f"{ratio:.2f} ×"


def summary(found):
    rows = [row for experiment, kept in found for row in rows_of(experiment, kept) if row[-1] is not None]
    worse = [row for row in rows if row[-1] is False]
    if not worse:
        return f"Of {len(rows)} judged figures none is worse than published."
    names = "; ".join(f"{label} ({number(ours)} {unit}, published {number(published)})" for label, published, ours, unit, *_ in worse)
    return f"Of {len(rows)} judged figures {len(worse)} are worse than published: {names}."


def about(kept):
    return (
        f"{kept['date']}, commit {kept['commit']}, {kept['machine']}, load {kept['load']:.1f}, {kept['seconds']} s, "
        f"{kept['chat']}"
    )


def markdown(found, missing):
    parts = ["# Published experiments, done again", "", INTRODUCTION, "", f"**{summary(found)}**", ""]
    parts += ["`make report` writes this page and [report.html](report.html), which has the plots.", ""]
    if missing:
        parts += [f"Not run: {'; '.join(missing)}.", ""]
    for experiment, kept in found:
        parts += [f"## {experiment.title}", "", experiment.text, "", "| | published | ours | ratio |", "|---|---|---|---|"]
        for label, published, ours, unit, ratio, better in rows_of(experiment, kept):
            mark = "**" if better is False else ""
            figure = f"{mark}{f'{number(ours)} {unit}'.strip()}{mark}"
            parts.append(f"| {label} | {number(published)} | {figure} | {ratio_text(ratio)} |")
        parts += ["", f"`{kept['command']}`", "", f"{about(kept)}.", ""]
    return "\n".join(wrap(line) for line in parts)


def wrap(line, width=120):
    """Breaks a line of prose; tables stay as they are."""
    if line.startswith(("|", "#", "`")) or len(line) <= width:
        return line
    lines, current = [], ""
    for word in line.split(" "):
        if current and len(current) + 1 + len(word) > width:
            lines.append(current)
            current = word
        else:
            current = f"{current} {word}" if current else word
    return "\n".join([*lines, current])


def html(found, missing):
    parts = [
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
        f"<title>Published experiments, done again</title><style>{STYLE}</style>",
        f"<h1>Published experiments, done again</h1><p>{escape(INTRODUCTION)}</p><p><strong>{escape(summary(found))}</strong></p>",
    ]
    if missing:
        parts.append(f'<p class="soft">Not run: {escape("; ".join(missing))}.</p>')
    for experiment, kept in found:
        parts.append(f"<h2>{escape(experiment.title)}</h2><p>{escape(experiment.text)}</p>")
        if experiment.plot:
            parts.append(experiment.plot(kept["result"]))
        parts.append("<table><tr><th></th><th>published</th><th>ours</th><th></th><th>ratio</th></tr>")
        for label, published, ours, unit, ratio, better in rows_of(experiment, kept):
            kind = {True: "good", False: "bad", None: ""}[better]
            parts.append(
                f"<tr><td>{escape(label)}</td><td>{escape(number(published))}</td><td class=\"{kind}\">{escape(number(ours))}</td>"
                f"<td style=\"text-align:left\">{escape(unit)}</td><td>{ratio_text(ratio)}</td></tr>"
            )
        parts.append(f"</table><p><code>{escape(kept['command'])}</code><br><small>{escape(about(kept))}</small></p>")
    return "\n".join(parts) + "\n"
