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


def build(experiment, programs):
    """Builds the bench as the experiment needs it. Cargo keeps the builds of both forms, so a repetition takes a second."""
    if programs:
        return programs / ("guildhall-bench-counts" if experiment.counts_allocations else "guildhall-bench")
    counts = ",guildhall-bench/count-allocations" if experiment.counts_allocations else ""
    packages = ("-p", "guildhall", "-p", "guildhall-bench")
    features = f"guildhall/jemalloc,guildhall-bench/jemalloc{counts}"
    command = (*shlex.split(os.environ.get("CARGO", "cargo")), "build", "--release", "--locked", "--quiet", *packages, "--features", features)
    subprocess.run(command, check=True, cwd=ROOT)
    return TARGET / "release" / "guildhall-bench"


def shown(experiment):
    """The command as a person would type it."""
    start = "guildhall-bench"
    if experiment.program == "clients":
        start = "node bench/clients/run.mjs"
    elif experiment.counts_allocations:
        start = "cargo run --release -p guildhall-bench --features count-allocations --"
    variants = " | ".join(shlex.join(variant) for variant in experiment.variants)
    return f"{start} {shlex.join(experiment.arguments)}" + (f" ({variants})" if variants else "")


def kept(experiment):
    path = RESULTS / f"{experiment.source or experiment.name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def set_up_clients():
    """Installs the libraries, and compiles the SDK."""
    for folder, package in (("bench/clients", None), ("sdk/typescript", "build")):
        lock, installed = ROOT / folder / "package-lock.json", ROOT / folder / "node_modules" / ".installed"
        if not installed.exists() or installed.read_text() != lock.read_text():
            subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund", "--prefix", folder], check=True, cwd=ROOT)
            installed.write_text(lock.read_text())
        if package:
            subprocess.run(["npm", "run", "--silent", package, "--prefix", folder], check=True, cwd=ROOT)


def command_of(experiment, programs):
    program = build(experiment, programs)
    if experiment.program == "clients":
        set_up_clients()
        return ["node", ROOT / "bench" / "clients" / "run.mjs", "--programs", program.parent]
    return [program]


def counts(result):
    """A result of this commit, or of one with the same programs: only pages and notes differ."""
    measured = result["commit"]
    if measured.endswith("+"):
        return measured == commit()
    done = subprocess.run(
        ["git", "diff", "--quiet", measured, "--", "crates", "sdk/typescript/src", "bench/clients", "bench/report/experiments.py",
         "Cargo.lock"], check=False, capture_output=True, cwd=ROOT)
    return done.returncode == 0


def run(experiment, chat, programs):
    """Runs an experiment, and keeps its result."""
    command = [*command_of(experiment, programs), *experiment.arguments]
    started = time.monotonic()
    if chat and (experiment.program == "clients" or experiment.arguments[0] in ("waterfall", "codec", "day")):
        command += ["--chat", chat]
    results = []
    for variant in experiment.variants or ((),):
        done = subprocess.run([*command, *variant], capture_output=True, text=True, check=False, timeout=SECONDS_MAX)
        if done.returncode != 0:
            print(f"  failed: {done.stderr.strip()[-500:]}", flush=True)
            return None
        results.append(parse(done.stdout))
    result = {
        "commit": commit(),
        "command": shown(experiment),
        "machine": machine(),
        "date": time.strftime("%Y-%m-%d"),
        "load": os.getloadavg()[0],
        "seconds": round(time.monotonic() - started),
        "chat": "a file of real chat" if chat else "the built-in texts",
        "result": results if experiment.variants else results[0],
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{experiment.name}.json").write_text(json.dumps(result, indent=1) + "\n")
    return result


def parse(text):
    """The result is the last line, behind lines of progress, or the whole text."""
    try:
        return json.loads(text.splitlines()[-1])
    except json.JSONDecodeError:
        return json.loads(text)


def write_readme(table):
    """Replaces the table of README.md; returns whether it is there."""
    path = ROOT / "README.md"
    before = path.read_text(encoding="utf-8")
    start, end = "<!-- report: make report -->\n", "<!-- end of the report -->"
    if start not in before or not table:
        return False
    head, rest = before.split(start, 1)
    path.write_text(f"{head}{start}{table}\n{end}{rest.split(end, 1)[1]}", encoding="utf-8")
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="this experiment only; may be repeated")
    parser.add_argument("--again", action="store_true", help="also what has a result for this commit")
    parser.add_argument("--write-only", action="store_true", help="write the pages, run nothing")
    parser.add_argument("--chat", help="message texts: one JSON object with \"turns\" per line")
    parser.add_argument("--programs", type=pathlib.Path, help="folder of guildhall, guildhall-bench and guildhall-bench-counts, "
                        "which has count-allocations; built if absent")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs" / "report")
    parser.add_argument("--no-readme", action="store_true", help="leave the table of README.md as it is")
    arguments = parser.parse_args()
    every = experiments(plots)
    if unknown := set(arguments.only or ()) - {each.name for each in every}:
        print(f"no experiment {unknown.pop()}; there are: {', '.join(each.name for each in every)}", file=sys.stderr)
        return 2
    failed = 0
    for number, experiment in enumerate(every, 1):
        before = kept(experiment)
        is_wanted = not arguments.only or experiment.name in arguments.only
        if experiment.source or arguments.write_only or not is_wanted or (before and counts(before) and not arguments.again):
            continue
        print(f"[{number} of {len(every)}] {experiment.title}", flush=True)
        failed += run(experiment, arguments.chat, arguments.programs) is None
    found = [(experiment, result) for experiment in every if (result := kept(experiment))]
    missing = [experiment.title for experiment in every if not kept(experiment)]
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, text in (("README.md", pages.markdown(found, missing)), ("report.html", pages.html(found, missing))):
        (arguments.out / name).write_text(text, encoding="utf-8")
        print(f"wrote {arguments.out / name}")
    if not arguments.no_readme and write_readme(pages.short_table(found)):
        print("wrote the table of README.md")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
