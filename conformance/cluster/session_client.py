"""Client: one session that reads what it gets, resumes when it can, and identifies again when it must."""
import json
import threading
import time

from harness.failure import Failure
from harness.frames import CLOSE, TEXT
from harness.wire import DISPATCH, HEARTBEAT, HELLO, IDENTIFY, Wire, identify

RECONNECT, INVALID_SESSION = 7, 9


class Client:
    """Events by name, in the order of their arrival, with the connection that each came on."""

    def __init__(self, node, token, patience, query="encoding=json"):
        self.node, self.token, self.patience, self.query = node, token, patience, query
        self.events = []
        self.ends = []
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self):
        self._is_closed = True

    def wait(self, what, is_it, seconds=None):
        """The first event that fits; waits for it."""
        with self._changed:
            found = []

            def look():
                found[:] = [event for event in self.events if is_it(*event)]
                return found

            if not self._changed.wait_for(look, seconds or self.patience.next_wait()):
                names = [name for name, _ in self.events][-12:]
                raise Failure(f"a client of {self.node.name} never got {what}; its last events: {names}, ends: {self.ends[-5:]}")
            return found[0]

    def count(self, is_it):
        with self._changed:
            return sum(1 for event in self.events if is_it(*event))

    def messages(self):
        """Contents of the messages so far."""
        with self._changed:
            return [d["content"] for name, d in self.events if name == "MESSAGE_CREATE"]

    def _run(self):
        while not self._is_closed:
            try:
                self._connect()
            except OSError as error:
                self._note_end(repr(error))
            time.sleep(0.2)

    def _note_end(self, end):
        with self._changed:
            self.ends.append(end)
            self._changed.notify_all()

    def _connect(self):
        wire = Wire(self.node.port, self.query, self.patience)
        try:
            while not self._is_closed:
                if wire.is_beat_due():
                    wire.send(TEXT, json.dumps({"op": HEARTBEAT, "d": None}).encode())
                data = wire.receive()
                if data is None:
                    continue
                if data == b"":
                    return self._note_end("closed")
                for frame in wire.frames.feed(data):
                    if frame.opcode == CLOSE:
                        return self._note_end(frame.close_code)
                    self._take(wire, json.loads(frame.payload))
        finally:
            wire.socket.close()

    def _take(self, wire, payload):
        if payload["op"] == HELLO:
            wire.start_beating(payload["d"])
            wire.send(TEXT, json.dumps({"op": IDENTIFY, "d": identify(self.token.removeprefix("Bot "))}).encode())
        elif payload["op"] == DISPATCH:
            with self._changed:
                self.events.append((payload["t"], payload["d"]))
                self._changed.notify_all()
