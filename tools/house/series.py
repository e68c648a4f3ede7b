"""Each series that dashboards, alerts and suites read is in the table of docs/operations/reference.md, "Metrics".

A test of the crate `guildhall` fails if a node exports a series that the table lacks. So a renamed metric shows here
before a node runs, unless its old row stayed.
"""
import re

from . import ROOT

PAGE = ROOT / "docs" / "operations" / "reference.md"
# Prometheus makes these of a histogram; the table has the histogram.
OF_HISTOGRAM = re.compile(r"_(bucket|sum|count)$")
SERIES = re.compile(r"guildhall_[a-z0-9_]*[a-z0-9](?![a-z0-9_*(])")
# These begin so and are no series.
NOT_SERIES = re.compile(r"guildhall_(build_info|test|demo|data)$")


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


def check():
    texts = [(path, path.read_text(encoding="utf-8")) for path in readers() if path.is_file()]
    found = problems(PAGE.read_text(encoding="utf-8"), texts)
    return [f"{path.relative_to(ROOT)}:{number}: {problem}" for path, number, problem in found]
