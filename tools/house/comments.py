"""Comments of Rust files end at a column. The pinned rustfmt does not wrap them: `wrap_comments` is unstable.

Invariants  W1 wrapping changes where lines break, and nothing else.
            W2 code blocks, tables, headings, reference links and comments behind code stay as they are.
            W3 an item of a list, and a word with its explanation in a module header (`//! Owns    …`), keep the
               indentation of their following lines.
            W4 `check` reports exactly the files that `wrap` would change.
"""
import re
import textwrap

from . import ROOT

COLUMN_MAX = 120
LINE = re.compile(r"^( *)(///|//!|//)(?: (.*)|)$")
ITEM = re.compile(r"^( *)(?:([-*+]|\d+\.) +|([A-Z][\w ]*\w {2,}))\S")
KEEP = re.compile(r"^ *(\||#|```|\[[^\]]+\]: |<)")


def is_too_wide(line):
    return len(line) > COLUMN_MAX and LINE.match(line) is not None and " " in line[:COLUMN_MAX].lstrip()[3:].strip()


def wrap(text):
    """The file with each paragraph wrapped that has a line beyond the column."""
    out, paragraph, in_code = [], [], False

    def flush():
        out.extend(rewrap(paragraph) if any(map(is_too_wide, paragraph)) else paragraph)
        paragraph.clear()

    for line in text.split("\n"):
        found = LINE.match(line)
        content = (found[3] or "") if found else ""
        if not found or found.groups()[:2] != head(paragraph):
            flush()
            in_code = in_code and found is not None
        if found and content.lstrip().startswith("```"):
            flush()
            in_code = not in_code
            out.append(line)
        elif not found or in_code or not content.strip() or KEEP.match(content):
            flush()
            out.append(line)
        else:
            if ITEM.match(content):
                flush()
            paragraph.append(line)
    flush()
    return "\n".join(out)


def head(paragraph):
    """Indentation and mark of a paragraph, like `LINE` has them."""
    found = LINE.match(paragraph[0]) if paragraph else None
    return found.groups()[:2] if found else None


def rewrap(lines):
    found = [LINE.match(line) for line in lines]
    first = found[0][3]
    item = ITEM.match(first)
    lead = len(first) - len(first.lstrip())
    if len(found) > 1:
        hang = min(len(f[3]) - len(f[3].lstrip()) for f in found[1:])
    elif item:
        hang = item.end() - 1
    else:
        hang = lead
    start = f"{found[0][1]}{found[0][2]} "
    # The first line as it is up to its text: the gap after the word in a module header is part of the form.
    opening = first[: item.end() - 1] if item else first[:lead]
    words = " ".join([first[len(opening) :].strip(), *(f[3].strip() for f in found[1:])])
    def at(column):
        return textwrap.wrap(
            words,
            column,
            initial_indent=start + opening,
            subsequent_indent=start + " " * hang,
            break_long_words=False,
            break_on_hyphens=False,
        )

    # A last line of one or two words looks like a comment of its own: the lines before it are made shorter.
    lines = at(COLUMN_MAX)
    for column in range(COLUMN_MAX, COLUMN_MAX - 25, -1):
        shorter = at(column)
        if len(shorter) == len(lines) and len(LINE.match(shorter[-1])[3].split()) > 2:
            return shorter
    return lines


def wide_lines(text):
    """Numbers of the lines whose comment is to be wrapped, with their width."""
    if not any(map(is_too_wide, text.split("\n"))):
        return
    kept = set(wrap(text).split("\n"))
    for number, line in enumerate(text.split("\n"), 1):
        if is_too_wide(line) and line not in kept:
            yield number, len(line)


def check(paths):
    for path in paths:
        if path.suffix == ".rs":
            name = path.relative_to(ROOT)
            for number, width in wide_lines(path.read_text(encoding="utf-8")):
                yield f"{name}:{number}: the comment ends at column {width}: tools/wrap-comments {name}"
