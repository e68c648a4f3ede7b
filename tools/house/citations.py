"""What code and documents cite is there.

Sections    `§1.7` without an RFC in front is a heading of docs/protocol/reference.md, and no other page is in front of it.
Headings    `docs/page.md "Heading"` names a heading of that page. Behind a section, as in `reference.md §8.6 "Rows"`, the
            quoted words are in the page.
Decisions   `ADR 19` and `docs/adr/0019` are files in docs/adr, and each of those is in its index.
Files       `docs/…`, `crates/…` and links between Markdown pages exist, and so do the headings that links name.
"""
import functools
import re

from . import ROOT

REFERENCE = ROOT / "docs" / "protocol" / "reference.md"
DECISIONS = ROOT / "docs" / "adr"
RFC = re.compile(r"RFC \d+(?:(?!reference|protocol).)*$")
SECTION = re.compile(r"§(\d+(?:\.\d+)*)")
PAGE = re.compile(r"[\w./-]+\.md\b")
UNMARKED = re.compile(r"protocol/reference\.md \d")
QUOTED = re.compile(r'([\w./-]+\.md)((?:(?:,| and)? ?§[\d.]*\d)*)((?:(?:,| and)? "[^"]+")+)')
DECISION = re.compile(r"\bADRs? (\d+)\b|\badr/(\d{4})")
PATH = re.compile(r"\b((?:docs|crates|conformance|bench|fuzz|packaging|tools)/[\w./-]*\w)")
DEFINITION = re.compile(r"^\[\w+\]: (\S+)")
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"#+ (.*)")
# Made by a run, so named and not in the tree.
MADE = re.compile(r"^conformance/\.cache|^bench/results/<|/target/")


def sections():
    return set(re.findall(r"(?m)^#+ (\d+(?:\.\d+)*)\.? ", REFERENCE.read_text(encoding="utf-8")))


def decisions():
    return {int(path.name[:4]) for path in DECISIONS.glob("[0-9]*.md")}


def crate_paths(text):
    """`relay/src/event.rs` is in crates/relay."""
    return (ROOT / text).exists() or (ROOT / "crates" / text).exists()


def slug(heading):
    """The anchor of a heading, as GitHub makes it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.strip())
    return re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", text).lower()).replace(" ", "-")


@functools.cache
def anchors(path):
    """Anchors of a Markdown page: of its headings, with numbers for equal ones."""
    found, in_code = set(), False
    for line in path.read_text(encoding="utf-8").splitlines():
        in_code ^= line.startswith("```")
        heading = HEADING.match(line)
        if heading and not in_code:
            name, number = slug(heading[1]), 0
            while (f"{name}-{number}" if number else name) in found:
                number += 1
            found.add(f"{name}-{number}" if number else name)
    return found


@functools.cache
def headings(path):
    """Headings of a Markdown page, without their numbers."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {re.sub(r"^[\d.]+ ", "", found[1]).strip() for line in lines if (found := HEADING.match(line))}


def cited_page(path, name):
    """The page that a line of `path` cites by this name, or None."""
    places = (ROOT / name, path.parent / name, REFERENCE if name == REFERENCE.name else ROOT / "docs" / name)
    return next((place.resolve() for place in places if place.is_file()), None)


def check_sections(path, line, known_sections):
    for found in SECTION.finditer(line):
        if RFC.search(line[: found.start()]):
            continue
        if found[1] not in known_sections:
            yield f"§{found[1]} is no section of {REFERENCE.relative_to(ROOT)}"
        pages = PAGE.findall(line[: found.start()])
        if pages and cited_page(path, pages[-1]) != REFERENCE:
            yield f"{pages[-1]} has no numbered sections: §{found[1]} is one of {REFERENCE.relative_to(ROOT)}"
    if UNMARKED.search(line):
        yield f"a section of {REFERENCE.relative_to(ROOT)} is cited with its sign, as §1.7"


def check_quoted(path, line):
    for found in QUOTED.finditer(line):
        page = cited_page(path, found[1])
        for words in re.findall(r'"([^"]+)"', found[3]) if page else []:
            if found[2] and words not in page.read_text(encoding="utf-8"):
                yield f'{found[1]} does not say "{words}"'
            elif not found[2] and words not in headings(page):
                yield f'{found[1]} has no heading "{words}"'


def check_link(path, target, anchor):
    page = path.parent / target if target else path
    if not page.exists():
        yield f"the link to {target} leads nowhere"
    elif anchor and page.suffix == ".md" and anchor not in anchors(page.resolve()):
        yield f"{target or 'this page'} has no heading #{anchor}"


def check_line(path, line, known_sections, known_decisions):
    yield from check_sections(path, line, known_sections)
    if path.suffix in (".rs", ".py", ".js", ".ts"):
        yield from check_quoted(path, line)
    for found in DECISION.finditer(line):
        if int(found[1] or found[2]) not in known_decisions:
            yield f"there is no ADR {found[1] or found[2]}"
    if path.suffix in (".rs", ".md"):
        for found in PATH.finditer(line):
            name = found[1]
            is_there = crate_paths(name) or any(ROOT.glob(f"{name}*.md")) or any(ROOT.glob(f"{name}.rs"))
            if not is_there and not MADE.search(name) and line[found.end() : found.end() + 1] not in "<*{…":
                yield f"there is no {name}"
    if path.suffix == ".md":
        links = [(found[1], found[2]) for found in LINK.finditer(line)]
        for target, anchor in (*links, *((found[1], None) for found in DEFINITION.finditer(line))):
            if (target or anchor) and "://" not in target and not target.startswith("mailto:"):
                yield from check_link(path, target, anchor)


def check_index(known_decisions):
    index = (DECISIONS / "README.md").read_text(encoding="utf-8")
    for path in sorted(DECISIONS.glob("[0-9]*.md")):
        if f"]: {path.name}\n" not in index:
            yield f"docs/adr/README.md:1: {path.name} is not in the index"
    for number in range(1, max(known_decisions)):
        if number not in known_decisions and f"| {number} |" not in index:
            yield f"docs/adr/README.md:1: the index lacks the fate of ADR {number}"


def check(files):
    known_sections, known_decisions = sections(), decisions()
    yield from check_index(known_decisions)
    for path in files:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (UnicodeDecodeError, FileNotFoundError):
            continue
        for number, line in enumerate(lines, 1):
            for problem in check_line(path, line, known_sections, known_decisions):
                yield f"{path.relative_to(ROOT)}:{number}: {problem}"
