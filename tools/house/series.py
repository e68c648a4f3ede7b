"""The series of the code, of docs/operations/reference.md "Metrics", and of what reads them are the same.

A metric has its name, help and type where `crates/telemetry` writes it: `out.counter("name", "help", …)`.

Invariants  S1 each metric of the code is in the table, a counter with `_total`, and each name of the table is a metric of
            the code. S2 dashboards, alerts and suites read series of the table only. A test of the crate `guildhall`
            compares what a node exports.
"""
import re

from . import ROOT

PAGE = ROOT / "docs" / "operations" / "reference.md"
# Prometheus makes these of a histogram; the table has the histogram.
OF_HISTOGRAM = re.compile(r"_(bucket|sum|count)$")
SERIES = re.compile(r"guildhall_[a-z0-9_]*[a-z0-9](?![a-z0-9_*(])")
# These begin so and are no series.
NOT_SERIES = re.compile(r"guildhall_(build_info|test|demo|data)$")


WRITTEN = re.compile(r"\.(counter|gauge|histogram|durations)(?:s|_f64|s_f64)?\(\s*\"([a-z0-9_]+)\"")


def written(source):
    """The series that calls of the writer name, with their line. Those of the process have the names that all have."""
    for found in WRITTEN.finditer(source):
        kind, name = found.groups()
        if not name.startswith("process_"):
            yield source.count("\n", 0, found.start()) + 1, name + ("_total" if kind == "counter" else "")


def unlike(page, sources):
    """(file, line, problem) of S1; `sources` has (file, text)."""
    rows, names = documented(page), set()
    for path, source in sources:
        for number, name in written(source):
            names.add(name)
            if name not in rows:
                yield path, number, f"{name} is not in the table of series of docs/operations/reference.md"
    for name in sorted(rows - names):
        number = next((number for number, line in enumerate(page.splitlines(), 1) if f"`{name}" in line), 1)
        yield PAGE, number, f"crates/telemetry writes no metric {name}"


def documented(page):
    """Names in the first column, without the prefix that all have."""
    table = page.partition("\n| series (`guildhall_…`) |")[2].partition("\n\n")[0]
    firsts = (line.split(" | ")[0] for line in table.splitlines()[2:])
    return {re.split(r"[{]", name)[0] for first in firsts for name in re.findall(r"`([^`]+)`", first)}


def problems(page, texts):
    """(file, line, problem) of each; `texts` has (file, text)."""
    known = documented(page)
    if not known:
        yield PAGE, 1, 'the section "Metrics" has no table of series'
    for path, text in texts:
        for number, line in enumerate(text.splitlines(), 1):
            for name in SERIES.findall(line):
                bare = name.removeprefix("guildhall_")
                if NOT_SERIES.match(name) or bare in known or OF_HISTOGRAM.sub("", bare) in known:
                    continue
                yield path, number, f"{name} is not in the table of series of docs/operations/reference.md"


def readers():
    yield from sorted(ROOT.glob("deploy/grafana/*.json"))
    yield from sorted(ROOT.glob("deploy/prometheus/*"))
    for folder in ("cluster", "deflate", "metrics", "readers", "harness"):
        for path in sorted(ROOT.glob(f"conformance/{folder}/*")):
            if path.is_file() and path.suffix in ("", ".py"):
                yield path


def sources():
    for path in sorted(ROOT.glob("crates/telemetry/src/metrics*")):
        yield from sorted(path.glob("*.rs")) if path.is_dir() else [path]


def check():
    texts = [(path, path.read_text(encoding="utf-8")) for path in readers() if path.is_file()]
    page = PAGE.read_text(encoding="utf-8")
    code = [(path, path.read_text(encoding="utf-8")) for path in sources()]
    found = [*unlike(page, code), *problems(page, texts)]
    return [f"{path.relative_to(ROOT)}:{number}: {problem}" for path, number, problem in found]
