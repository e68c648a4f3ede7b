"""Report: the table at the end, and what is shown of a run that failed."""
import dataclasses

from .toolchain import tail

PASSED, FAILED, SKIPPED = "passed", "FAILED", "skipped"
COLUMNS = ("client", "mode", "result", "messages", "resumes")


@dataclasses.dataclass
class Outcome:
    """How one mode ended."""

    mode: object
    result: str
    reason: str = ""
    messages: int = 0
    resumes: int = 0
    # Log files by their names in the report.
    logs: dict = dataclasses.field(default_factory=dict)

    def row(self):
        return (self.mode.client, self.mode.name, self.result, str(self.messages), str(self.resumes))


def print_failure(outcome):
    """One failed run, with the ends of its logs."""
    print(f"\n=== {outcome.mode.client} {outcome.mode.name}: {outcome.reason}")
    for name, path in outcome.logs.items():
        print(f"--- {name} ({path}), its end:")
        print("\n".join(line[:500] for line in tail(path).splitlines()))


def print_report(outcomes):
    """The table, the reasons, and the last line."""
    for outcome in outcomes:
        if outcome.result == FAILED:
            print_failure(outcome)
    rows = [COLUMNS, *(outcome.row() for outcome in outcomes)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
    print()
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    for outcome in outcomes:
        if outcome.result != PASSED:
            # Once more here: a log that is cut mostly keeps its end.
            reason = outcome.reason.splitlines()[0] if outcome.reason else ""
            print(f"{outcome.result}: {outcome.mode.client} {outcome.mode.name}: {reason[:500]}")
    passed, failed = (sum(o.result == result for o in outcomes) for result in (PASSED, FAILED))
    print(f"{passed} passed, {failed} failed", flush=True)
    return failed
