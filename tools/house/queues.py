"""The bounds of queues in ARCHITECTURE.md are those of the code.

Rows        of the table below "Threads and queues". The second cell has the bounds, the third the names of constants,
            settings' defaults or fields in the same order, and the file of each behind its names:
            `| name | 64 messages, 4 MiB | `A_MAX`, `B_BYTES_MAX`, `net/src/mailbox.rs` | … |`.
Invariants  Q1 a row has as many numbers as names. Q2 each number is the value that the file gives the name: of
            `const NAME: … = …;` or of `name: …,`. A file that has no value for a name is an error, too.
"""
import re

from . import ROOT

ARCHITECTURE = ROOT / "ARCHITECTURE.md"
HEADING = "## Threads and queues"
NUMBER = re.compile(r"\d[\d,]*(?: (KiB|MiB|GiB))?")
UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
CODE = re.compile(r"`([\w./]+)`")
ARITHMETIC = re.compile(r"[\d\s*+<()-]+")


def numbers(cell):
    return [int(found[0].split(" ")[0].replace(",", "")) * UNITS[found[1] or ""] for found in NUMBER.finditer(cell)]


def value(name, source, depth=0):
    """The value that a source gives a name; none if it gives none, or by more than arithmetic."""
    found = re.search(rf"\bconst {name}: [^=;]+ = ([^;]+);", source) or re.search(rf"(?m)^\s+{name}: ([\d_][^,\n]*),$", source)
    if not found:
        return None
    text = re.sub(r"(?<=\d)_(?=\d)", "", found[1])
    for other in set(re.findall(r"[A-Z_]{2,}", text)):
        inner = value(other, source, depth + 1) if depth < 4 else None
        text = text if inner is None else re.sub(rf"\b{other}\b", str(inner), text)
    return eval(text, {"__builtins__": {}}) if ARITHMETIC.fullmatch(text) else None  # pylint: disable=eval-used


def names(cell):
    """Names of a cell, each with the file that is behind it."""
    waiting = []
    for code in CODE.findall(cell):
        if code.endswith(".rs"):
            yield from ((name, code) for name in waiting)
            waiting = []
        elif "." not in code:
            waiting.append(code)


def problems(text, read):
    """Rows whose bounds are not those of the code; `read` returns the source of a file of crates/."""
    start = text.index(HEADING) if HEADING in text else None
    if start is None:
        yield 1, f'there is no "{HEADING}"'
        return
    section = text[start:].split("\n## ")[0]
    first = text.count("\n", 0, start) + 1
    for number, line in enumerate(section.splitlines(), first):
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if not line.startswith("| ") or len(cells) != 4 or ".rs`" not in cells[2]:
            continue
        bounds, named = numbers(cells[1]), list(names(cells[2]))
        if len(bounds) != len(named):
            yield number, f"{cells[0]}: {len(bounds)} bounds, but {len(named)} names"
        for bound, (name, file) in zip(bounds, named):
            found = value(name, read(file))
            if found != bound:
                yield number, f"{cells[0]}: `{name}` of {file} is {found}, and the table has {bound}"


def check():
    def read(file):
        path = ROOT / "crates" / file
        return path.read_text(encoding="utf-8") if path.exists() else ""

    for number, problem in problems(ARCHITECTURE.read_text(encoding="utf-8"), read):
        yield f"ARCHITECTURE.md:{number}: {problem}"
