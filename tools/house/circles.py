"""Modules that import each other in a circle.

Owns        the graph of the modules of a crate: `a` leads to `b` if a file of `a` names `crate::b`, or reaches it by
            `super`.
Invariants  O1 the modules of a crate in `CIRCLES` that lead to each other are those of its row, or fewer. A module
            outside of the circle can be read, and changed, without those in it.
"""
import re

from . import ROOT

# Crates with this rule, and the modules that may lead to each other: the machine, and parts that it has.
CIRCLES = {"guild": {"entries", "handoff", "machine", "member_lists"}}
USE = re.compile(r"(?m)^\s*(?:pub(?:\([a-z]+\))?\s+)?use\s+([^;]+);")
PATH = re.compile(r"\b(?:crate|super)::[\w:]+")
COMMENT = re.compile(r"//.*")


def expand(tree):
    """`a::{b, c::{d}}` as `a::b`, `a::c::d`."""
    tree = tree.strip()
    head, brace, rest = tree.partition("{")
    if not brace:
        return [tree.split(" as ")[0]]
    branches, depth = [""], 0
    for character in rest.rstrip().removesuffix("}"):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            branches.append("")
        else:
            branches[-1] += character
    return [head + path for branch in branches if branch.strip() for path in expand(branch)]


def graph(sources):
    """Modules by name with those that each leads to. `sources` has the text by path, of `machine.rs` or `job/list.rs`."""
    modules = {path.split("/")[0].removesuffix(".rs") for path in sources} - {"lib"}
    leads = {module: set() for module in modules}
    for path, text in sources.items():
        at = path.removesuffix(".rs").split("/")
        code = COMMENT.sub("", text.split("#[cfg(test)]\nmod ")[0])
        named = [name for tree in USE.findall(code) for name in expand(tree)] + PATH.findall(USE.sub("", code))
        for name in named:
            here, steps = list(at), name.split("::")
            while steps[0] in ("crate", "super"):
                here = [] if steps[0] == "crate" else here[:-1]
                steps = steps[1:] or [""]
            if at[0] in modules and name.startswith(("crate", "super")):
                leads[at[0]] |= {([*here, *steps])[0]} & modules - {at[0]}
    return leads


def reached(leads, start):
    found, waiting = set(), [start]
    while waiting:
        for module in leads[waiting.pop()] - found:
            found.add(module)
            waiting.append(module)
    return found


def circle(leads):
    """Modules that lead to themselves."""
    return {module for module in leads if module in reached(leads, module)}


def check():
    problems = []
    for crate, allowed in CIRCLES.items():
        folder = ROOT / "crates" / crate / "src"
        sources = {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*.rs"))}
        leads = graph(sources)
        for module in sorted(circle(leads) - allowed):
            to = sorted(other for other in leads[module] if module in reached(leads, other))
            problems.append(f"crates/{crate}/src: {module} imports {', '.join(to)}, which leads back to it")
    return problems
