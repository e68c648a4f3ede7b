"""The report as Markdown and as one HTML file. Figures that are worse than published come first."""
from html import escape

from experiments import LOWER

# Above it other programs ran: a bench has two busy threads at most on two cores, and load lags behind.
LOAD_ALONE = 3.0
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
.wide { overflow-x: auto } td.ratio { white-space: nowrap } .soft { font-size: .9em }
@media (min-width: 601px) { td:nth-child(n+2) { white-space: nowrap } }
@media (max-width: 600px) { table { font-size: .85rem } th, td { padding: .3rem } h1 { font-size: 1.4rem } svg { font-size: 19px !important } }
svg { display: block; width: 100%; height: auto; margin: 1rem 0; font: 13px system-ui, sans-serif } svg text { fill: var(--soft) }
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
    other = row.published if row.rival is None else row.rival
    if row.better and isinstance(other, (int, float)) and ours is not None:
        better = ours <= other if row.better == LOWER else ours >= other
    published = row.published if row.rival is None else f"{figure(row.rival, row.unit)}, same run"
    return row.label, published, ours, row.unit, ratio, better


def value(find, result):
    """A figure of the result; None if the result is of an older form and lacks it."""
    try:
        return find(result)
    except (KeyError, IndexError, StopIteration, TypeError):
        return None


def all_rows(experiment, kept):
    return value(experiment.rows, kept["result"]) or () if callable(experiment.rows) else experiment.rows


def headlines(found):
    """The first screen: judged rows with their words, worse ones first."""
    rows = [
        (row.headline, *judged(row, value(row.find, kept["result"]))[1:])
        for experiment, kept in found for row in all_rows(experiment, kept) if row.headline
    ]
    return sorted(rows, key=lambda row: row[-1] is not False)


def rows_of(experiment, kept):
    """Worse ones first; otherwise in their order."""
    rows = [judged(row, value(row.find, kept["result"])) for row in all_rows(experiment, kept)]
    return sorted(rows, key=lambda row: row[-1] is not False)


def figure(value, unit):
    """A number with its unit, or a text."""
    if value is None:
        return "–"
    return value if isinstance(value, str) else f"{number(value)} {unit}".strip()


def published_text(published, unit):
    return "not published" if published is None else figure(published, unit)


def ratio_text(ratio):
    return "" if ratio is None else f"{ratio:.2f} ×"


def summary(found):
    rows = [row for experiment, kept in found for row in rows_of(experiment, kept) if row[-1] is not None]
    worse = [row for row in rows if row[-1] is False]
    if not worse:
        return f"Of {len(rows)} judged figures none is worse than published."
    names = "; ".join(f"{label} ({figure(ours, unit)}, {'published ' if isinstance(published, (int, float)) else ''}{figure(published, unit)})" for label, published, ours, unit, *_ in worse)
    return f"Of {len(rows)} judged figures {len(worse)} are worse than published: {names}."


def about(kept):
    """Where and when; a load of more than the own processes means that others shared the machine."""
    load = f"load {kept['load']:.1f}" + (": measured under load" if kept["load"] > LOAD_ALONE else "")
    return f"{kept['date']}, commit {kept['commit']}, {kept['machine']}, {load}, {kept['seconds']} s, {kept['chat']}"


def short_table(found):
    """The first screen as Markdown."""
    parts = ["| | published | ours | ratio |", "|---|---|---|---|"]
    for label, published, ours, unit, ratio, better in headlines(found):
        mark = "**" if better is False else ""
        parts.append(f"| {label} | {published_text(published, unit)} | {mark}{figure(ours, unit)}{mark} | {ratio_text(ratio)} |")
    return "\n".join(parts)


def markdown(found, missing):
    parts = ["# Published experiments, done again", "", INTRODUCTION, "", f"**{summary(found)}**", ""]
    parts += ["`make report` writes this page and [report.html](report.html), which has the plots.", ""]
    parts += [short_table(found), "", "Figures that are worse than published are bold, and come first.", ""]
    if missing:
        parts += [f"Not run: {'; '.join(missing)}.", ""]
    for experiment, kept in found:
        parts += [f"## {experiment.title}", "", experiment.text, "", "| | published | ours | ratio |", "|---|---|---|---|"]
        for label, published, ours, unit, ratio, better in rows_of(experiment, kept):
            mark = "**" if better is False else ""
            parts.append(f"| {label} | {published_text(published, unit)} | {mark}{figure(ours, unit)}{mark} | {ratio_text(ratio)} |")
        parts += ["", f"```sh\n{kept['command']}\n```", "", f"{about(kept)}.", ""]
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


def html_table(rows):
    parts = ['<div class="wide"><table><tr><th></th><th>published</th><th>ours</th><th>ratio</th></tr>']
    for label, published, ours, unit, ratio, better in rows:
        kind = {True: "good", False: "bad", None: ""}[better]
        mark = {True: "", False: "worse: ", None: ""}[better]
        parts.append(
            f'<tr><td>{mark}{escape(label)}</td><td>{escape(published_text(published, unit))}</td>'
            f'<td class="{kind}">{escape(figure(ours, unit)).replace(" ×", "&nbsp;×").replace(" %", "&nbsp;%")}</td><td class="ratio">{ratio_text(ratio)}</td></tr>'
        )
    return "\n".join(parts) + "</table></div>"


def html(found, missing):
    parts = [
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
        f"<title>Published experiments, done again</title><style>{STYLE}</style>",
        f"<h1>Published experiments, done again</h1><p>{escape(INTRODUCTION)}</p><p><strong>{escape(summary(found))}</strong></p>",
    ]
    if missing:
        parts.append(f'<p class="soft">Not run: {escape("; ".join(missing))}.</p>')
    parts.append(html_table(headlines(found)))
    for experiment, kept in found:
        parts.append(f"<h2>{escape(experiment.title)}</h2><p>{escape(experiment.text)}</p>")
        if experiment.plot:
            parts.append(f'<div class="wide">{experiment.plot(kept["result"])}</div>')
        parts.append(html_table(rows_of(experiment, kept)))
        parts.append(f"<p><code>{escape(kept['command'])}</code><br><small>{escape(about(kept))}</small></p>")
    return "\n".join(parts) + "\n"
