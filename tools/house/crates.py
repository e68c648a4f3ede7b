"""The crates, their place in ARCHITECTURE.md, and what each depends on.

Owns        the table of ARCHITECTURE.md read as an order, the manifests as Cargo reads them, the picture.
Invariants  C1 a crate depends on crates further down in the table only.
            C2 below the line no crate depends, also indirectly, on one that brings sockets, a runtime, a clock or
               randomness.
            C3 crates that only tests use (`DEV_ONLY`) are dependencies of each other and of tests only.
            C4 above the line a crate has a clippy.toml, the same in each; below it none, so that the root's applies.
            C5 every library and program forbids unsafe code; those of `WITH_UNSAFE` deny it and expect it item by item.
               A program with an allocator denies it, too, and has no exception.
            C6 the picture in ARCHITECTURE.md is the one that `tools/crate-picture` draws.
            C7 a library that Cargo does not build for tests (`test = false`, `doctest = false`) has none.
"""
import json
import os
import pathlib
import re
import subprocess

from . import ROOT

ARCHITECTURE = ROOT / "ARCHITECTURE.md"
LINE = "below this line"
# As the invariant "Unsafe code" of ARCHITECTURE.md has them.
WITH_UNSAFE = {"codec", "prefetch", "slab", "uring"}
DEV_ONLY = {"test-kit", "sim"}
PREFIX = "guildhall-"
# What C2 forbids: by what each brings.
BRINGS = {
    **dict.fromkeys(("tokio", "async-std", "smol"), "a runtime"),
    **dict.fromkeys(("mio", "socket2", "hyper", "axum", "reqwest", "ureq", "rustls", "async-nats"), "sockets"),
    **dict.fromkeys(("sqlx", "rusqlite", "tempfile", "memmap2", "notify"), "files"),
    **dict.fromkeys(("rand", "getrandom", "fastrand", "uuid", "ring", "aws-lc-rs"), "randomness"),
    **dict.fromkeys(("chrono", "time", "jiff"), "a clock"),
    **dict.fromkeys(("rayon", "crossbeam-channel", "crossbeam-utils"), "threads"),
}
BEGIN, END = "<!-- picture of the crates: make picture -->", "<!-- end of the picture -->"


def short(package):
    """`guildhall-relay` is the crate `relay` here; the binary's crate is `guildhall`."""
    return package.removeprefix(PREFIX)


def package(name):
    """The opposite of `short`."""
    return name if name == "guildhall" else PREFIX + name


def cargo():
    return os.environ.get("CARGO", "cargo")


def metadata(*arguments):
    command = [cargo(), "metadata", "--offline", "--locked", "--format-version", "1", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"tidy: cargo metadata failed; `cargo fetch --locked` gets what it needs:\n{done.stderr}")
    return json.loads(done.stdout)


def host():
    text = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout
    return re.search(r"(?m)^host: (.+)$", text)[1]


def read_table(text):
    """The crates of the table from the top, and those of them that are below the line."""
    order, below, is_below = [], set(), False
    table = text.split("## The map")[1].split("\n## ")[0]
    for row in re.findall(r"(?m)^\| .+$", table):
        is_below = is_below or LINE in row
        for name in re.findall(r"`([\w-]+)`", row.split("|")[1]):
            order.append(name)
            if is_below:
                below.add(name)
    return order, below


def table():
    return read_table(ARCHITECTURE.read_text(encoding="utf-8"))


class Graph:
    """What each crate of the workspace depends on, and from where."""

    def __init__(self, packages):
        self.folders, self.own, self.with_tests = {}, {}, {}
        for package in packages:
            name = short(package["name"])
            self.folders[name] = pathlib.Path(package["manifest_path"]).parent
            ours = [d for d in package["dependencies"] if d.get("path")]
            self.own[name] = {short(d["name"]) for d in ours if d["kind"] != "dev"}
            self.with_tests[name] = {short(d["name"]) for d in ours}

    def reached(self, name):
        """Everything that a crate depends on, indirectly as well."""
        found, left = set(), [name]
        while left:
            for other in self.own.get(left.pop(), ()):
                if other not in found:
                    found.add(other)
                    left.append(other)
        return found

    def dependants(self, names):
        """These crates and all whose code or tests depend on them, indirectly as well."""
        found = set(names)
        while True:
            more = {name for name, others in self.with_tests.items() if others & found} - found
            if not more:
                return found
            found |= more

    def arrows(self):
        """The dependencies without those that follow from others."""
        for name in self.own:
            for other in sorted(self.own[name]):
                if not any(other in self.reached(between) for between in self.own[name] - {other}):
                    yield name, other


def graph():
    return Graph(metadata("--no-deps")["packages"])


def picture(crates, order, below):
    """The crates and their dependencies as a Mermaid chart."""
    known = [name for name in order if name in crates.own]
    lines = ["```mermaid", "flowchart TD"]
    for at, (title, names) in enumerate((
        ("above the line", [n for n in known if n not in below]),
        ("below the line: no sockets, no clock, no global randomness", [n for n in known if n in below - DEV_ONLY]),
        ("only for tests", [n for n in known if n in DEV_ONLY]),
    )):
        lines.append(f'  subgraph part{at} ["{title}"]')
        lines += [f"    {name}" for name in names]
        lines.append("  end")
    arrows = set(crates.arrows())
    for name in known:
        targets = [other for other in known if (name, other) in arrows]
        if targets:
            lines.append(f"  {name} --> {' & '.join(targets)}")
    return "\n".join([*lines, "```"])


def with_picture(text, drawn):
    """ARCHITECTURE.md with this picture between the marks."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{drawn}\n{END}{rest.split(END)[1]}"


def check_order(crates, order, below):
    rank = {name: at for at, name in enumerate(order)}
    for name, others in sorted(crates.own.items()):
        where = f"crates/{crates.folders[name].name}/Cargo.toml:1"
        if name not in rank:
            yield f"{where}: {name} is not in the table of ARCHITECTURE.md"
            continue
        for other in sorted(others):
            if other in DEV_ONLY and name not in DEV_ONLY:
                yield f"{where}: {name} depends on {other}, which is for tests: make it a dev-dependency"
            elif name not in DEV_ONLY and rank.get(other, -1) < rank[name]:
                yield f"{where}: {name} depends on {other}, which is above it in ARCHITECTURE.md"
    for name in order:
        if name not in crates.own:
            yield f"ARCHITECTURE.md:1: there is no crate {name}"


def check_closure(resolved, below):
    """C2, from `cargo metadata` with everything resolved."""
    names = {package["id"]: package["name"] for package in resolved["packages"]}
    used = {
        node["id"]: [d["pkg"] for d in node["deps"] if any(kind["kind"] is None for kind in d["dep_kinds"])]
        for node in resolved["resolve"]["nodes"]
    }
    for root in resolved["workspace_members"]:
        if (crate := short(names[root])) not in below - DEV_ONLY:
            continue
        by, left = {root: None}, [root]
        while left:
            package = left.pop()
            for other in used[package]:
                if other not in by:
                    by[other] = package
                    left.append(other)
        for package in by:
            if brought := BRINGS.get(names[package]):
                way, at = [], package
                while at:
                    way.insert(0, short(names[at]))
                    at = by[at]
                yield f"crates/{crate}/Cargo.toml:1: below the line, but it brings {brought}: {' → '.join(way)}"


def check_clippy(crates, below):
    texts = {}
    for name, folder in sorted(crates.folders.items()):
        path = folder / "clippy.toml"
        if name in below:
            if path.exists():
                yield f"crates/{folder.name}/clippy.toml:1: {name} is below the line: the root's clippy.toml is for it"
        elif not path.exists():
            yield f"crates/{folder.name}:1: {name} is above the line: give it the clippy.toml of crates/net"
        else:
            texts[path] = path.read_text(encoding="utf-8")
    model = texts.get(ROOT / "crates" / "net" / "clippy.toml")
    for path, text in texts.items():
        if text != model:
            yield f"{path.relative_to(ROOT)}:1: it is not the same as crates/net/clippy.toml"


def check_unsafe(name, files):
    """C5; `files` are the roots of the crate's library and programs, by path."""
    for path, text in files.items():
        is_denied = "#![deny(unsafe_code)]" in text
        has_allocator = is_denied and "#[global_allocator]" in text and "expect(unsafe" not in text
        if "#![forbid(unsafe_code)]" in text or has_allocator:
            continue
        if name not in WITH_UNSAFE:
            yield f"{path}:1: it lacks #![forbid(unsafe_code)]"
        elif not is_denied:
            yield f"{path}:1: it lacks #![deny(unsafe_code)]"


def roots(folder):
    paths = (folder / "src" / "lib.rs", folder / "src" / "main.rs", *sorted((folder / "src" / "bin").glob("*.rs")))
    return {path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in paths if path.exists()}


# What each setting of `[lib]` turns off, as its sources have it.
TURNED_OFF = {
    "test = false": (re.compile(r"#\[(tokio::)?test\b"), "tests"),
    "doctest = false": (re.compile(r"(?m)^\s*//[/!].*```"), "documentation tests"),
}


def check_turned_off(manifest, sources):
    """C7; `sources` are the crate's files by path."""
    settings = manifest.partition("[lib]")[2].partition("\n[")[0]
    for setting, (mark, what) in TURNED_OFF.items():
        if re.search(rf"(?m)^{setting}$", settings):
            for path, text in sources.items():
                if mark.search(text):
                    yield f"{path}:1: it has {what}, and the crate's Cargo.toml has `{setting}`: Cargo does not run them"


def check_lints(crates):
    for folder in crates.folders.values():
        if "[lints]\nworkspace = true" not in (folder / "Cargo.toml").read_text(encoding="utf-8"):
            yield f"crates/{folder.name}/Cargo.toml:1: it lacks `[lints] workspace = true`"


def check_picture(crates, order, below):
    text = ARCHITECTURE.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        yield f"ARCHITECTURE.md:1: the marks of the picture are not there once each: {BEGIN} {END}"
    elif with_picture(text, picture(crates, order, below)) != text:
        yield "ARCHITECTURE.md:1: the picture of the crates is out of date: make picture"


def check(resolved):
    crates, (order, below) = graph(), table()
    yield from check_order(crates, order, below)
    yield from check_closure(resolved, below)
    yield from check_clippy(crates, below)
    yield from check_lints(crates)
    for name, folder in crates.folders.items():
        yield from check_unsafe(name, roots(folder))
        sources = {path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in folder.glob("src/**/*.rs")}
        yield from check_turned_off((folder / "Cargo.toml").read_text(encoding="utf-8"), sources)
    yield from check_picture(crates, order, below)
