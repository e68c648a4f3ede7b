"""Runs stages as processes, some side by side, and reports how long each took.

Owns        the order in which stages start, their log files, the table at the end.
Invariants  O1 a stage starts after every stage that it needs has passed.
            O2 one build runs at a time: two would compete for the same cores and locks.
            O3 builds run at a lower priority than suites, so that a suite beside a build keeps its time limits.
            O4 no process outlives the run: an interrupt (SIGINT, SIGTERM) ends the stages, and so does the limit of a
               stage, `STAGE_SECONDS_MAX`.
            O5 after a failure no stage starts, unless the caller asked to keep going; then only the stages that
               need the failed one are left out.
            O6 a lane has places, `PLACES`; a stage starts when its lane has one.
Limits      `Speed`: what a run may cost in CPU time, on the machine that the budget was measured on.
Not here    which stages exist: tools/suite.
"""
import dataclasses
import functools
import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time

PASSED, FAILED, NOT_RUN = "passed", "FAILED", "not run"
BUILD_NICENESS = 10
# Stages of a lane that run at a time.
PLACES = {"build": 1, "fetch": 1, "run": 1, "wait": 2}
SUITES = ("run", "wait")
# Longer than any stage takes on a slow machine: a suite that waits for ever fails.
STAGE_SECONDS_MAX = 3600
# How long a stage has to end by itself after SIGTERM.
STOP_SECONDS = 10
TAIL_LINES = 200
# Of each failed stage, after the table.
LAST_LINES = 12
REMARK_CHARACTERS = 70
# How make reports that a command failed: the line does not have the reason.
MAKE_ERROR = re.compile(r"make(\[\d+\])?: \*\*\*")


@dataclasses.dataclass(eq=False)
class Stage:
    """One command with a name."""

    name: str
    command: list
    lane: str
    """`build` uses every core, `fetch` downloads, `run` is a suite that computes, `wait` a suite that mostly waits."""
    needs: tuple = ()
    result: str = NOT_RUN
    wall_seconds: float = 0
    cpu_seconds: float = 0
    """Of the stage's processes that had ended when the stage did."""
    remark: str = ""
    last_lines: list = dataclasses.field(default_factory=list)
    log: pathlib.Path = None


def clock(seconds):
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def signal_group(pid, number):
    """A stage is the leader of a process group."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        pass


class Runner:
    """Runs a list of stages to the end."""

    def __init__(self, stages, logs, keep_going=False, write=None):
        self._stages = stages
        self._logs = logs
        self._keep_going = keep_going
        self._write = write or functools.partial(print, flush=True)
        self._started = time.monotonic()
        self._running = {}
        self._changed = threading.Condition()
        self._is_interrupted = False
        self._is_starting = False

    def run(self):
        """Runs everything; returns whether every stage passed."""
        self._logs.mkdir(parents=True, exist_ok=True)
        waiting = list(self._stages)
        before = {number: signal.signal(number, self._interrupt) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            with self._changed:
                while True:
                    waiting = self._start_what_can(waiting)
                    if not self._running:
                        break
                    self._changed.wait()
        except KeyboardInterrupt:
            self._is_interrupted = True
            self._stop()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        return all(stage.result == PASSED for stage in self._stages)

    def _interrupt(self, _number, _frame):
        """An interrupt while a stage starts waits until the stage is known, so that it is stopped as well."""
        self._is_interrupted = True
        if not self._is_starting:
            raise KeyboardInterrupt

    def _start_what_can(self, waiting):
        if any(stage.result == FAILED for stage in self._stages) and not self._keep_going:
            return []
        by_name = {stage.name: stage for stage in self._stages}
        left = []
        for stage in waiting:
            needed = [by_name[name] for name in stage.needs if name in by_name]
            if any(other.result == FAILED or other.remark == "left out" for other in needed):
                stage.remark = "left out"
            elif all(other.result == PASSED for other in needed) and self._has_room(stage):
                self._start(stage)
            else:
                left.append(stage)
        # A stage that was left out can free others to be left out.
        return left if len(left) == len(waiting) or self._running else self._start_what_can(left)

    def _has_room(self, stage):
        return [other.lane for other in self._running].count(stage.lane) < PLACES[stage.lane]

    def _start(self, stage):
        self._is_starting = True
        stage.log = self._logs / f"{stage.name}.log"
        niceness = 0 if stage.lane in SUITES else BUILD_NICENESS
        with open(stage.log, "wb") as log:
            process = subprocess.Popen(
                stage.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=lambda: (os.setpgid(0, 0), os.nice(niceness)),
            )
        self._running[stage] = process
        self._say(f"{stage.name} …")
        threading.Thread(target=self._wait, args=(stage, process, time.monotonic()), daemon=True).start()
        self._is_starting = False
        if self._is_interrupted:
            raise KeyboardInterrupt

    def _wait(self, stage, process, started):
        limit = threading.Timer(STAGE_SECONDS_MAX, signal_group, (process.pid, signal.SIGKILL))
        limit.start()
        _, status, usage = os.wait4(process.pid, 0)
        limit.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        with self._changed:
            stage.wall_seconds = time.monotonic() - started
            stage.cpu_seconds = usage.ru_utime + usage.ru_stime
            stage.result = PASSED if process.returncode == 0 else FAILED
            lines = stage.log.read_text(encoding="utf-8", errors="replace").splitlines()
            stage.last_lines = [line for line in lines if line.strip() and not MAKE_ERROR.match(line)][-LAST_LINES:]
            stage.remark = "".join(stage.last_lines[-1:]).strip()[:REMARK_CHARACTERS]
            if stage.result == FAILED and not self._is_interrupted:
                self._write("\n".join([f"---- {stage.name}: the end of {stage.log}", *lines[-TAIL_LINES:], "----"]))
            self._say(f"{stage.name} {stage.result} in {clock(stage.wall_seconds)}")
            del self._running[stage]
            self._changed.notify()

    def _stop(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in list(self._running.values()):
                signal_group(process.pid, number)
            with self._changed:
                self._changed.wait_for(lambda: not self._running, timeout=STOP_SECONDS)

    def _say(self, text):
        self._write(f"[{clock(time.monotonic() - self._started):>6}] {text}")

    def cpu_seconds(self):
        return sum(stage.cpu_seconds for stage in self._stages)

    def write_table(self, path, **facts):
        """The table as JSON, for programs that compare runs."""
        fields = ("name", "lane", "result", "wall_seconds", "cpu_seconds")
        rows = [{field: getattr(stage, field) for field in fields} for stage in self._stages]
        for row in rows:
            row["wall_seconds"], row["cpu_seconds"] = round(row["wall_seconds"], 1), round(row["cpu_seconds"], 1)
        wall = round(time.monotonic() - self._started, 1)
        total = {"wall_seconds": wall, "cpu_seconds": round(self.cpu_seconds(), 1), "cores": os.cpu_count()}
        path.write_text(json.dumps({"stages": rows, "total": total | facts}, indent=2) + "\n")

    def table(self):
        """The stages with their durations, in the order of the list."""
        width = max(len(stage.name) for stage in self._stages)
        rows = [f"{'stage':{width}}  result     wall     cpu  last line"]
        for stage in self._stages:
            wall, cpu = clock(stage.wall_seconds), clock(stage.cpu_seconds)
            rows.append(f"{stage.name:{width}}  {stage.result:7}  {wall:>6}  {cpu:>6}  {stage.remark}".rstrip())
        total = clock(time.monotonic() - self._started)
        rows.append(f"{'total':{width}}  {'':7}  {total:>6}  {clock(self.cpu_seconds()):>6}  {os.cpu_count()} cores")
        return "\n".join(rows)


class Speed:
    """How slow this machine is during a run, compared with the one that budgets were measured on.

    A thread repeats a fixed computation and takes its CPU time. So a slow processor, and neighbours that share its caches
    or its cores' halves, count for the budget as they count for the stages.
    """

    # CPU time of `_compute` on that machine, without other work.
    REFERENCE_SECONDS = 0.0500
    PAUSE_SECONDS = 5

    def __init__(self):
        self._seconds = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._measure, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def factor(self):
        """Mean time per unit of work, 1 on the reference machine."""
        return sum(self._seconds) / len(self._seconds) / self.REFERENCE_SECONDS

    def _measure(self):
        while True:
            started = time.thread_time()
            self._compute()
            self._seconds.append(time.thread_time() - started)
            if self._stop.wait(self.PAUSE_SECONDS):
                return

    @staticmethod
    def _compute():
        total = 0
        for number in range(700_000):
            total = (total * 31 + number) & 0xFFFF_FFFF
        return total
