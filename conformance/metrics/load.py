"""Load: connections that keep a node busy while it is measured.

Owns        one `Listener` for each encoding and compression of the gateway.
Limits      a listener reads and heartbeats, and stores nothing; its thread ends with the connection.
Not here    messages: the demo's members write them. What the bytes mean: `../readers`.
"""
import json
import threading

from harness.failure import Failure
from harness.frames import BINARY, CLOSE, TEXT
from harness.session import term
from harness.wire import HEARTBEAT, IDENTIFY, Wire, identify

QUERIES = tuple(
    f"encoding={encoding}{compress}"
    for encoding in ("json", "etf")
    for compress in ("", "&compress=zlib-stream", "&compress=zstd-stream")
)
# HELLO and READY have fewer, compressed or not; the GUILD_CREATE of the demo has more.
LOADED_BYTES = 4000
BEAT_MS = 10_000


class Listener:
    """One session whose payloads are not decoded."""

    def __init__(self, port, query, token, patience):
        self._changed = threading.Condition()
        self._query = query
        self._bytes = 0
        self._end = None
        self._wire = Wire(port, query, patience)
        self._wire.start_beating({"heartbeat_interval": BEAT_MS})
        self._is_etf = "encoding=etf" in query
        self._say(IDENTIFY, identify(token))
        threading.Thread(target=self._read, daemon=True).start()

    def wait_loaded(self, patience):
        """Waits until its guilds have been sent."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._bytes > LOADED_BYTES or self._end, patience.next_wait()):
                raise Failure(f"a listener ({self._query}) receives nothing")
        self.check()

    def check(self):
        """Fails if the connection has ended."""
        if self._end:
            raise Failure(f"a listener ({self._query}) lost its connection: {self._end}")

    def close(self):
        self._wire.socket.close()

    def _say(self, op, d):
        payload = {"op": op, "d": d}
        if self._is_etf:
            self._wire.send(BINARY, b"\x83" + term(payload))
        else:
            self._wire.send(TEXT, json.dumps(payload).encode())

    def _read(self):
        end = None
        try:
            while end is None:
                end = self._read_some()
        except OSError as error:
            end = repr(error)
        with self._changed:
            self._end = end
            self._changed.notify_all()

    def _read_some(self):
        """Why it has ended, if it has."""
        if self._wire.is_beat_due():
            self._say(HEARTBEAT, None)
        data = self._wire.receive()
        if data is None:
            return None
        for frame in self._wire.frames.feed(data):
            if frame.opcode == CLOSE:
                return f"close code {frame.close_code}"
        with self._changed:
            self._bytes += len(data)
            self._changed.notify_all()
        return None if data else "end of stream"
