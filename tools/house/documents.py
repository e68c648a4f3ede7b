"""Form of documents.

Invariants  F1 lines of text end at a column. Tables, code, headings, pictures, HTML and what a program generates may be
               wider. F2 an entry of the changelog is one line.
Limits      Raw results (`bench/results`) are as they were recorded.
"""
import re

from . import ROOT

COLUMN_MAX = 120
WIDE = re.compile(r"^(\||#|!| *<|    )")
GENERATED = re.compile(r"^<!-- (end of )?(settings|picture of the crates)\b")


def wide_lines(text):
    """Numbers of lines beyond the column."""
    in_code = is_generated = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        found = GENERATED.match(line)
        if found:
            is_generated = found[1] is None
        if len(line) > COLUMN_MAX and not (in_code or is_generated or WIDE.match(line)):
            yield number


def long_entries(text):
    """Numbers of lines that continue an entry of the changelog."""
    return [number for number, line in enumerate(text.split("\n"), 1) if line.startswith("  ") and line.strip()]


def check(paths):
    for path in paths:
        name = path.relative_to(ROOT)
        if path.suffix != ".md" or str(name).startswith("bench/results/"):
            continue
        text = path.read_text(encoding="utf-8")
        for number in wide_lines(text):
            yield f"{name}:{number}: the line ends after column {COLUMN_MAX}"
        for number in long_entries(text) if name.name == "CHANGELOG.md" else []:
            yield f"{name}:{number}: an entry has one line"
