"""Client: one library's program, and the lines it speaks.

Owns        the process, everything it has reported so far, and how many of its complaints a cut explains.
Doors       `wait_for` and `send` from the scenario.
Invariants  a complaint that neither a cut nor the library's own end explains fails the run, at the next wait.
Spec        ../README.md "The line protocol".
"""
import json
import re
import subprocess
import threading
import time

from .failure import Failure

# Errors that libraries log when a connection ends without a close frame.
CUT_COMPLAINT = re.compile(
    r"ECONNRESET|reset by peer|hang up|\b1006\b|ClientConnection(Reset)?Error|Cannot write to closing transport"
    r"|without closing handshake|end of the stream has been reached unexpectedly",
    re.I,
)
COMPLAINTS_PER_CUT = 2
# Error of JDA if its sender reschedules itself just after `shutdown` has closed its thread pool.
QUIT_COMPLAINT = re.compile(r"Was unable to schedule next packet due to rejected execution")
# Warning of serenity about a gap in the sequence numbers. The scenario judges where it is.
GAP_COMPLAINT = re.compile(r"Sequence off; them: (\d+), us: (\d+)")


def gap_of(event):
    """The sequence numbers before and behind a gap, if that is what the event complains of."""
    gap = event["ev"] == "problem" and GAP_COMPLAINT.search(event["detail"])
    return (int(gap[2]), int(gap[1])) if gap else None


def is_of_quitting(text, at, quit_at):
    """Whether the library's end explains the complaint that is event number `at`; it began behind `quit_at` events."""
    return quit_at is not None and at >= quit_at and QUIT_COMPLAINT.search(text) is not None


def unexplained(events, of_cuts, quit_at=None):
    """Complaints that neither cuts explain (`of_cuts` at most) nor the end that began behind `quit_at` events."""
    for at, event in enumerate(events):
        if event["ev"] != "problem" or gap_of(event):
            continue
        text = f"{event['what']} {event['detail']}"
        if is_of_quitting(text, at, quit_at):
            continue
        if of_cuts > 0 and CUT_COMPLAINT.search(text):
            of_cuts -= 1
        else:
            yield event


class ClientProcess:
    """A running client program."""

    def __init__(self, command, environment, settings, folder, patience):
        self._patience = patience
        self.events = []
        self.log = folder / "client.log"
        self.lines = folder / "events.log"
        self._changed = threading.Condition()
        self._is_over = False
        self._explained = 0
        # How many events came before `quit`.
        self._quit_at = None
        self._log_file = open(self.log, "wb")
        settings_path = folder / "settings.json"
        settings_path.write_text(json.dumps(settings), encoding="utf-8")
        self._process = subprocess.Popen(
            [*command, str(settings_path)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log_file,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join(10)
        self._process.stdin.close()
        self._process.stdout.close()
        self._log_file.close()

    def _read(self):
        with open(self.lines, "wb") as lines:
            for line in self._process.stdout:
                lines.write(line)
                lines.flush()
                try:
                    event = json.loads(line)
                except ValueError:
                    event = {"ev": "problem", "what": "stdout", "detail": line.decode("utf-8", "replace")}
                with self._changed:
                    self.events.append(event)
                    self._changed.notify_all()
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def explain_cut(self):
        """A cut is coming: it explains a few complaints about the connection."""
        self._explained += COMPLAINTS_PER_CUT

    def all(self, ev):
        """All events of this name so far."""
        return [event for event in self.events if event["ev"] == ev]

    def is_late(self, at, text):
        """See `is_of_quitting`."""
        return is_of_quitting(text, at, self._quit_at)

    def check(self):
        """Fails on a complaint that nothing explains."""
        if complaints := list(unexplained(list(self.events), self._explained, self._quit_at)):
            first = complaints[0]
            raise Failure(f"the client complains ({len(complaints)}×): {first['what']}: {first['detail']}")

    def wait_for(self, what, ev, matches=lambda event: True, count=1):
        """Waits until `count` events `ev` match, and returns the last of these."""
        deadline = time.monotonic() + self._patience.next_wait()
        with self._changed:
            while True:
                self.check()
                found = [event for event in self.all(ev) if matches(event)]
                if len(found) >= count:
                    return found[count - 1]
                if self._is_over:
                    raise Failure(f"the client ended while waiting for {what}")
                left = deadline - time.monotonic()
                if left <= 0:
                    raise Failure(f"waited in vain for {what} ({len(found)} of {count})")
                self._changed.wait(left)

    def send(self, cmd, **fields):
        """Sends one command."""
        if cmd == "quit":
            self._quit_at = len(self.events)
        line = json.dumps({"cmd": cmd, **fields}) + "\n"
        try:
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
        except OSError as error:
            raise Failure(f"the client takes no commands any more: {error}") from error

    def wait_exit(self):
        """Waits until the process has ended by itself, and well."""
        try:
            code = self._process.wait(self._patience.next_wait())
        except subprocess.TimeoutExpired as error:
            held = self.all("held")
            by = f": it is held by {held[-1]['by']}" if held else ""
            raise Failure(f"the client does not end after quit{by}") from error
        self._reader.join(10)
        self.check()
        if code != 0:
            raise Failure(f"the client ended with code {code}")
