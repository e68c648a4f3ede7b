"""Each alert has a section of the runbook, and each section an alert.

Rules       `deploy/prometheus/guildhall.rules.yaml`: the annotation `runbook` leads to the section of the alert's name.
Sections    docs/operations.md, "Runbook": a heading, and what the alert means, what to look at, what to do.
"""
import re

from . import ROOT
from .citations import slug

RULES = ROOT / "deploy" / "prometheus" / "guildhall.rules.yaml"
PAGE = ROOT / "docs" / "operations.md"
PARTS = ("- **Means:** ", "- **Look at:** ", "- **Do:** ")


def alerts(rules):
    """(line number, name, runbook) of each alert; no runbook is "": the line is missing."""
    number, found = 1, re.split(r"(?m)^( *- alert: .*)$", rules)
    for before, line, body in zip(found[0::2], found[1::2], found[2::2]):
        number += before.count("\n")
        runbook = re.search(r'(?m)^ *runbook: "([^"]*)"$', body)
        yield number, line.split()[-1], runbook[1] if runbook else ""


def sections(page):
    """(line number, heading, text) of each section of the runbook."""
    head, _, runbook = page.partition("\n## Runbook\n")
    number, found = head.count("\n") + 3, re.split(r"(?m)^### (.*)$", re.split(r"(?m)^## ", runbook)[0])
    for before, heading, text in zip(found[0::2], found[1::2], found[2::2]):
        number += before.count("\n")
        yield number, heading, text


def problems(rules, page):
    """(file, line, problem) of each."""
    known, written = list(alerts(rules)), list(sections(page))
    if not known:
        yield RULES, 1, "there is no alert"
    for number, name, runbook in known:
        wanted = f"docs/operations.md#{slug(name)}"
        if runbook != wanted:
            yield RULES, number, f'{name} lacks the annotation runbook: "{wanted}"'
        if name not in (heading for _, heading, _ in written):
            yield RULES, number, f"the runbook has no section {name}"
    for number, heading, text in written:
        if heading not in (name for _, name, _ in known):
            yield PAGE, number, f"there is no alert {heading}"
        for part in PARTS:
            if text.count(f"\n{part}") != 1:
                yield PAGE, number, f"{heading} needs one line that begins with {part.strip()}"


def check():
    found = problems(RULES.read_text(encoding="utf-8"), PAGE.read_text(encoding="utf-8"))
    return [f"{path.relative_to(ROOT)}:{number}: {problem}" for path, number, problem in found]
