#!/usr/bin/env python3
"""Does the published experiments again, and writes docs/report/: the published figure, ours, the ratio and the command.

    make report                              builds the bench, runs what has no result yet for this commit, writes
    bench/report/report.py --only waterfall  one experiment; may be repeated
    bench/report/report.py --again           runs all, whatever results there are
    bench/report/report.py --write-only      writes the pages from the results that exist

A run can be interrupted: results are in target/report/, one file per experiment, and count for the commit they were
made with.
"""
import argparse
import json
import os
import pathlib
import platform
import shlex
import subprocess
import sys
import time

import pages
import plots
from experiments import experiments

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
RESULTS = TARGET / "report"
# The longest takes three minutes on two quiet cores.
SECONDS_MAX = 1800


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout.strip()


def commit():
    """The commit, with a mark if files differ from it."""
    changed = output("git", "status", "--porcelain", "--untracked-files=no")
    return output("git", "rev-parse", "--short=8", "HEAD") + ("+" if changed else "")


def machine():
    """Processor and system: times depend on them."""
    model = "unknown processor"
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].split(":", 1)[1].strip() if lines else model
    return f"{model}, {os.cpu_count()} cores, {platform.system()} {platform.release()}"


def build(experiment):
    """Builds the bench as the experiment needs it. Cargo keeps the builds of both forms, so a repetition takes a second."""
    counts = ",guildhall-bench/count-allocations" if experiment.counts_allocations else ""
    packages = ("-p", "guildhall", "-p", "guildhall-bench")
    features = f"guildhall/jemalloc,guildhall-bench/jemalloc{counts}"
    command = ("cargo", "build", "--release", "--locked", "--quiet", *packages, "--features", features)
    subprocess.run(command, check=True, cwd=ROOT)
    return TARGET / "release" / "guildhall-bench"


def shown(experiment):
    """The command as a person would type it."""
    start = "guildhall-bench"
    if experiment.counts_allocations:
        start = "cargo run --release -p guildhall-bench --features count-allocations --"
    return f"{start} {shlex.join(experiment.arguments)}"


def kept(experiment):
    path = RESULTS / f"{experiment.name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def run(experiment, chat):
    """Runs an experiment, and keeps its result."""
    command = [build(experiment), *experiment.arguments]
    if chat and experiment.arguments[0] in ("waterfall", "codec"):
        command += ["--chat", chat]
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS_MAX)
    if done.returncode != 0:
        print(f"  failed: {done.stderr.strip()[-500:]}", flush=True)
        return None
    result = {
        "commit": commit(),
        "command": shown(experiment),
        "machine": machine(),
        "date": time.strftime("%Y-%m-%d"),
        "load": os.getloadavg()[0],
        "seconds": round(time.monotonic() - started),
        "chat": "a file of real chat" if chat else "the built-in texts",
        "result": parse(done.stdout),
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{experiment.name}.json").write_text(json.dumps(result, indent=1) + "\n")
    return result


def parse(text):
    """The last line is the result; lines before it report progress."""
    return json.loads(text.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="this experiment only; may be repeated")
    parser.add_argument("--again", action="store_true", help="also what has a result for this commit")
    parser.add_argument("--write-only", action="store_true", help="write the pages, run nothing")
    parser.add_argument("--chat", help="message texts: one JSON object with \"turns\" per line")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs" / "report")
    arguments = parser.parse_args()
    every = experiments(plots)
    if unknown := set(arguments.only or ()) - {each.name for each in every}:
        print(f"no experiment {unknown.pop()}; there are: {', '.join(each.name for each in every)}", file=sys.stderr)
        return 2
    failed = 0
    for number, experiment in enumerate(every, 1):
        before = kept(experiment)
        is_wanted = not arguments.only or experiment.name in arguments.only
        if arguments.write_only or not is_wanted or (before and before["commit"] == commit() and not arguments.again):
            continue
        print(f"[{number} of {len(every)}] {experiment.title}", flush=True)
        failed += run(experiment, arguments.chat) is None
    found = [(experiment, result) for experiment in every if (result := kept(experiment))]
    missing = [experiment.title for experiment in every if not kept(experiment)]
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, text in (("README.md", pages.markdown(found, missing)), ("report.html", pages.html(found, missing))):
        (arguments.out / name).write_text(text, encoding="utf-8")
        print(f"wrote {arguments.out / name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
