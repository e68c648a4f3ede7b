"""Reads dashboards with Grafana's own types, writes them back, and prints what differs. In the suite's environment.

    typed.py FILE.json…
"""
import json
import pathlib
import sys

from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard


def differences(wanted, found, place):
    """A field that Grafana does not know is lost; one that it knows otherwise differs."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key, value in wanted.items():
            if key in found:
                yield from differences(value, found[key], f"{place}/{key}")
            else:
                yield f"{place}/{key} is no field of Grafana"
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for number, (one, other) in enumerate(zip(wanted, found)):
            yield from differences(one, other, f"{place}/{number}")
    elif wanted != found:
        yield f"{place}: {wanted!r} is read as {found!r}"


def check(path):
    dashboard = json.loads(path.read_text(encoding="utf-8"))
    read = json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(dashboard)))
    yield from differences(dashboard, read, path.stem)


def main():
    plugins.register_default_plugins()
    problems = [problem for name in sys.argv[1:] for problem in check(pathlib.Path(name))]
    print(*problems, sep="\n", end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
