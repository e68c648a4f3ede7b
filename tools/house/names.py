"""Names of code in documents are names that code has.

Documents      A `Type::member` in README.md, CONTRIBUTING.md or docs/ exists, if crates/ defines the type; and so do the
               files of crates/ that they name.
Architecture   `Type`, `Type::function` and `module::function` in ARCHITECTURE.md are defined in crates/; `crate/src/file.rs`
               and the files of its table of crates exist.
Glossary       A name in the third column is defined.
Retired        A name in house/retired.txt is defined nowhere, or nowhere in the crate that its row names: not as an item,
               a variant, a field or a file of crates/.
"""
import re

from . import ROOT

ARCHITECTURE = ROOT / "ARCHITECTURE.md"
GLOSSARY = ROOT / "docs" / "glossary.md"
RETIRED = ROOT / "tools" / "house" / "retired.txt"
CODE = re.compile(r"`([^`]+)`")
TYPE = re.compile(r"[A-Z]\w*[a-z]\w*$")
PATH = re.compile(r"\w+(?:::\w+)+$")
FILE = re.compile(r"[a-z][\w-]*/(?:src|tests)/[\w/.-]+$")
ROW = re.compile(r"^\| `([\w-]+)` \|.*\| ([^|]*) \|$")
DEFINITION = re.compile(
    r"\b(?:fn|struct|enum|trait|type|mod|const|static|macro_rules!)\s+(\w+)"  # items
    r"|^\s+(?:pub(?:\([\w:]+\))?\s+)?(\w+)(?:\s*[,({=]|:\s)",  # variants and fields
    re.MULTILINE,
)

OWNER = re.compile(r"\b(?:struct|enum|trait|type)\s+(\w+)|\bimpl\b[^{;\n]*?\b(\w+)(?:<[^{\n]*>)?\s*\{")


class Names:
    """The names that a set of sources defines, and the words in them."""

    def __init__(self, sources):
        self.words, self.defined, self.members = set(), set(), {}
        for text in sources:
            defined = {name for found in DEFINITION.finditer(text) for name in found.groups() if name}
            self.defined |= defined
            self.words.update(re.findall(r"\w+", text))
            for name in {name for found in OWNER.finditer(text) for name in found.groups() if name}:
                self.members.setdefault(name, set()).update(defined)

    def is_member(self, owner, member):
        """Some file has the type, or an `impl` for it, and the member."""
        return member in self.members.get(owner, ())


def read_sources():
    return Names(path.read_text(encoding="utf-8") for path in sorted((ROOT / "crates").glob("*/src/**/*.rs")))


def check_architecture(text, names):
    for number, line in enumerate(text.splitlines(), 1):
        for found in CODE.finditer(line):
            name = found[1].removesuffix("()")
            if TYPE.match(name) or PATH.match(name):
                parts = name.split("::")
                for part in parts:
                    if part not in (names.defined if part[0].isupper() else names.words):
                        yield number, f"no code defines `{part}` of `{name}`"
                for owner, member in zip(parts, parts[1:]):
                    if TYPE.match(owner) and not names.is_member(owner, member):
                        yield number, f"`{owner}` has no `{member}`"


def missing_files(text, crates):
    for number, line in enumerate(text.splitlines(), 1):
        row = ROW.match(line)
        named = [f"{row[1]}/src/{name}" for name in CODE.findall(row[2]) if (crates / row[1]).exists()] if row else []
        for name in (*named, *filter(FILE.match, CODE.findall(line))):
            if not (crates / name).exists():
                yield number, f"there is no crates/{name}"


def check_document(text, names):
    """As `check_architecture`, but only for members of types that the sources define: documents name others' code too."""
    for number, line in enumerate(text.splitlines(), 1):
        for found in CODE.finditer(line):
            parts = found[1].removesuffix("()").split("::")
            for owner, member in zip(parts, parts[1:]):
                if TYPE.match(owner) and owner in names.defined and not names.is_member(owner, member):
                    yield number, f"`{owner}` has no `{member}`"


def check_glossary(text, names):
    for number, line in enumerate(text.splitlines(), 1):
        cells = line.split("|")
        for name in CODE.findall(cells[3]) if len(cells) == 5 else []:
            if TYPE.match(name) and name not in names.defined:
                yield number, f"no code defines `{name}`"


def read_retired(text):
    """Retired names: name, crate or None, and what is written instead."""
    rows = [line.split(" | ") for line in text.splitlines() if line and not line.startswith("#")]
    return [(name, None if where == "everywhere" else where, instead) for name, where, instead in rows]


def definitions(text):
    """Lines on which a source defines a name, as pairs of number and name."""
    for found in DEFINITION.finditer(text):
        for group, name in enumerate(found.groups(), 1):
            if name:
                yield text.count("\n", 0, found.start(group)) + 1, name


def check_retired(rows, crates):
    """Definitions of retired names below a folder of crates, as file, line and problem."""
    words = re.compile(r"\b(?:%s)\b" % "|".join(re.escape(name) for name, _, _ in rows))
    for path in sorted(crates.glob("*/*/**/*.rs")):
        crate = path.relative_to(crates).parts[0]
        here = {name: instead for name, only, instead in rows if only in (None, crate)}
        if path.name in here:
            yield path, 1, f"`{path.name}` is a retired name: use {here[path.name]}"
        text = path.read_text(encoding="utf-8")
        if words.search(text):
            for number, name in definitions(text):
                if name in here:
                    yield path, number, f"`{name}` is a retired name: use {here[name]}"


def documents():
    """Documents whose names are checked. Those of the glossary and ARCHITECTURE.md are checked by rules of their own."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def check():
    names = read_sources()
    for path in documents():
        if path != GLOSSARY:
            text = path.read_text(encoding="utf-8")
            for number, problem in (*check_document(text, names), *missing_files(text, ROOT / "crates")):
                yield f"{path.relative_to(ROOT)}:{number}: {problem}"
    rows = read_retired(RETIRED.read_text(encoding="utf-8"))
    for path, number, problem in check_retired(rows, ROOT / "crates"):
        yield f"{path.relative_to(ROOT)}:{number}: {problem}"
    for number, problem in missing_files(ARCHITECTURE.read_text(encoding="utf-8"), ROOT / "crates"):
        yield f"{ARCHITECTURE.relative_to(ROOT)}:{number}: {problem}"
    for path, check_text in ((ARCHITECTURE, check_architecture), (GLOSSARY, check_glossary)):
        for number, problem in check_text(path.read_text(encoding="utf-8"), names):
            yield f"{path.relative_to(ROOT)}:{number}: {problem}"
