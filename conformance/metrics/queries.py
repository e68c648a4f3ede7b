"""Queries: what the dashboards and the alert rules of `deploy/` read, and whether a node exports it.

Owns        the list of expressions, and the names in each.
Invariants  Q1 every name of a series occurs in /metrics of a live node, except those in `ABSENT`, which must not.
            Q2 a Prometheus answers every query of a dashboard with data, and every selector of an alert.
Not here    whether an expression parses: promtool and Prometheus check that.
"""
import dataclasses
import json
import pathlib
import re

from harness.failure import Failure
from harness.toolchain import ROOT

DEPLOY = ROOT.parent / "deploy"
RULES = DEPLOY / "prometheus" / "guildhall.rules.yaml"
# Exported only by nodes with a setting, or a running experiment, that the node under test lacks.
ABSENT = {
    "guildhall_tls_certificate_end_seconds": "tls.cert_file",
    "guildhall_experiment_samples_total": "an experiment",
    "guildhall_experiment_mean": "an experiment",
    "guildhall_experiment_state": "an experiment",
}
# Made by Prometheus for each target.
OF_PROMETHEUS = {"up"}

WORDS = {"and", "or", "unless", "bool", "offset", "inf", "nan"}
GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)")
SELECTOR = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)\s*(\{[^}]*\})?(?!\s*\(|[A-Za-z0-9_:])")


@dataclasses.dataclass(frozen=True)
class Query:
    """An expression, and where it is."""

    place: str
    expression: str
    is_alert: bool

    def selectors(self):
        """(name, selector) of each series."""
        text = re.sub(r"\[[^\]]*\]", " ", GROUPING.sub(" ", self.expression))
        for found in SELECTOR.finditer(text):
            name, labels = found.groups()
            if name.lower() not in WORDS and not text[: found.start()].endswith(tuple("0123456789.$")):
                yield name, name + (labels or "")


def read_all():
    """Every expression of `deploy/`."""
    queries = [*read_rules(RULES)]
    for path in sorted((DEPLOY / "grafana").glob("*.json")):
        queries += read_dashboard(path)
    return queries


def read_rules(path):
    """One line each; `promtool check rules` counts the same."""
    text = path.read_text(encoding="utf-8")
    found = re.findall(r"^ *- alert: (\w+)\n *expr: (.+)$", text, re.M)
    if not found or len(found) != text.count("expr:"):
        raise Failure(f"{path.name}: an `expr` does not follow its `alert` in one line")
    return [Query(f"alert {name}", expression, True) for name, expression in found]


def read_dashboard(path):
    dashboard = json.loads(path.read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield Query(f"{path.stem}, {panel['title']}", target["expr"], False)
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            # label_values(SELECTOR, label)
            selector = re.fullmatch(r"label_values\((.+), \w+\)", variable["query"]["query"])
            yield Query(f"{path.stem}, ${variable['name']}", selector[1], False)


def expect_exported(queries, metrics):
    """Q1."""
    exported = {re.split(r"[ {]", line, maxsplit=1)[0] for line in metrics.splitlines() if not line.startswith("#")}
    named = {name: query.place for query in queries for name, _ in query.selectors()}
    if not named:
        raise Failure("no query names a series")
    missing = [f"{name} ({place})" for name, place in named.items() if name not in exported | OF_PROMETHEUS | {*ABSENT}]
    if missing:
        raise Failure(f"a node exports no {', '.join(missing)}")
    if stale := [name for name in ABSENT if name in exported or name not in named]:
        raise Failure(f"ABSENT has {', '.join(stale)}, which is exported, or which no query names")


def expect_answered(queries, prometheus, instance):
    """Q2."""
    empty = []
    # As Grafana writes a chosen value into a string of PromQL.
    chosen = re.escape(instance).replace("\\", "\\\\")
    for query in queries:
        if any(name in ABSENT for name, _ in query.selectors()):
            continue
        asked = [selector for _, selector in query.selectors()]
        if not query.is_alert:
            asked.append(query.expression)
        for expression in asked:
            expression = expression.replace("$__rate_interval", "1m").replace("$instance", chosen)
            # A Prometheus that has just started knows nothing of last week, and of the last hour some seconds.
            expression = expression.replace(" offset 1w", "").replace(" > 1000", "")
            if not prometheus.query(expression):
                empty.append(f"{query.place}: {expression}")
    if empty:
        raise Failure("no data:\n" + "\n".join(empty))
