"""Tests that code and documents cite exist.

Cited       names behind the word "test" or "tests" (`r1_*`, `closing::c4001_*`, `scale`), and every name of the form
            `r1_*`, in comments of Rust files and in documents.
Exists      a function or module whose name matches; `*` stands for any characters. A file of a crate cites tests of its
            own crate, or of one that it names within a line; a document cites tests of any crate.
"""
import re

from . import ROOT

LIST = re.compile(r"\b[Tt]ests?:? ((?:`[\w:*]+`(?:, and |, | and |; |,? or )?)+)")
PREFIX = re.compile(r"`((?:\w+::)*[a-z]\d+(?:_\d+)*_\*)`")
NAME = re.compile(r"`([\w:*]+)`")
DEFINED = re.compile(r"(?m)^\s*(?:pub(?:\([\w:]+\))? )?(?:async )?(?:fn|mod) (?:r#)?(\w+)")
COMMENT = re.compile(r"^\s*//[/!]? ?(.*)")
# Names of the program's parts, not of tests.
NOT_TESTS = {"process_*", "handle_*"}


def defined(sources):
    """Names of functions and modules of some sources: (path, text)."""
    names = set()
    for path, text in sources:
        names.add(path.parent.name if path.name == "mod.rs" else path.stem)
        names.update(DEFINED.findall(text))
    return names


def cited(line):
    """Names of tests in a line of text."""
    lists = [name for found in LIST.findall(line) for name in NAME.findall(found)]
    return [name for name in dict.fromkeys([*lists, *PREFIX.findall(line)]) if name not in NOT_TESTS]


def exists(name, names):
    last = [part for part in name.split("::") if part not in ("*", "it")]
    if not last:
        return True
    # A test of two rules has both in its name: `d1_d2_…`.
    pattern = re.compile(r"(?:[a-z]\d+_)*" + re.escape(last[-1]).replace(r"\*", r"\w*"))
    return any(pattern.fullmatch(defined) for defined in names)


def check(paths):
    rust = [path for path in paths if path.suffix == ".rs"]
    by_crate = {}
    for path in rust:
        parts = path.relative_to(ROOT).parts
        crate = parts[1] if parts[0] == "crates" else parts[0]
        by_crate.setdefault(crate, []).append((path, path.read_text(encoding="utf-8")))
    names = {crate: defined(sources) for crate, sources in by_crate.items()}
    everything = set().union(*names.values())

    def named(lines):
        """Names of tests of the crates that some lines name."""
        words = set(re.findall(r"`(?:guildhall-|crates/)?([a-z][\w-]*)(?:/[\w./-]*)?`", " ".join(lines)))
        return set().union(*(names[crate] for crate in words & names.keys()))

    for crate, sources in by_crate.items():
        for path, text in sources:
            lines = text.split("\n")
            for number, line in enumerate(lines, 1):
                comment = COMMENT.match(line)
                for name in cited(comment[1]) if comment else []:
                    if not exists(name, names[crate] | named(lines[max(number - 2, 0) : number + 1])):
                        yield f"{path.relative_to(ROOT)}:{number}: no test of this crate matches `{name}`"
    for path in paths:
        if path.suffix == ".md":
            for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
                for name in cited(line):
                    if not exists(name, everything):
                        yield f"{path.relative_to(ROOT)}:{number}: no test matches `{name}`"
