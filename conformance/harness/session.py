"""Session: one gateway session on sockets of its own, whose stream a `Decoder` reads.

Owns        the wire of the moment, the thread that reads it, and every dispatch so far.
Doors       `drop` and `resume` from the run; `wait` for a dispatch.
Invariants  sequence numbers are gapless outside replays, and within one the gaps are those of superseded presences
            (`SequenceJudge`); every message is one whole payload.
Limits      every wait is bounded by the run's patience.
Spec        docs/protocol/reference.md §1.
"""
import json
import struct
import threading
import time

from .failure import Failure
from .frames import BINARY, CLOSE, TEXT, decode_etf
from .wire import DISPATCH, HEARTBEAT, HEARTBEAT_ACK, HELLO, IDENTIFY, REQUEST_MEMBERS, RESUME, Wire, identify
from .sequence import SequenceJudge
from .tap import close_with_reset


class Session:
    """A session of the account whose token it is given."""

    def __init__(self, port, token, encoding, compression, decoder, patience):
        self._port = port
        self._token = token
        self._encoding = encoding
        self._compression = compression
        self._decoder = decoder
        self._patience = patience
        self._changed = threading.Condition()
        self._fault = None
        self._session_id = None
        self._seq = None
        self._sequence = SequenceJudge()
        # (t, d) of everything that was dispatched.
        self.dispatches = []
        # How many numbers a replay left out before the dispatch at this place.
        self.left_out = {}
        self.payload_bytes = self.wire_bytes = 0
        self._connect()

    def _connect(self):
        query = f"encoding={self._encoding}" + (f"&compress={self._compression}" if self._compression else "")
        self._wire = Wire(self._port, query, self._patience)
        self._stopping = threading.Event()
        if self._decoder:
            self._decoder.begin()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def drop(self):
        """Cuts the connection by a reset, wherever the server's stream happens to be."""
        self._stopping.set()
        self._reader.join(self._patience.wait_seconds)
        close_with_reset(self._wire.socket)
        self._check()

    def resume(self):
        """Comes back with a new socket and a new stream."""
        self._connect()

    def close(self):
        """Ends everything; the decoder too."""
        self._stopping.set()
        self._reader.join(10)
        self._wire.socket.close()
        if self._decoder:
            self._decoder.close()

    def request_members(self, guild_id, query, limit):
        """Requests payloads for this session alone: large ones among those that all get."""
        self._say(REQUEST_MEMBERS, {"guild_id": guild_id, "query": query, "limit": limit, "presences": True})

    def wait(self, what, is_it, count=1):
        """Waits for `count` dispatches for which `is_it(t, d)` holds."""
        deadline = time.monotonic() + self._patience.next_wait()
        seen = at = 0
        with self._changed:
            while True:
                for t, d in self.dispatches[at:]:
                    seen += is_it(t, d)
                at = len(self.dispatches)
                if seen >= count:
                    return
                self._check()
                left = deadline - time.monotonic()
                if left <= 0:
                    raise Failure(f"waited in vain for {what} ({seen} of {count})")
                self._changed.wait(left)

    def _check(self):
        if self._fault:
            raise Failure(self._fault)

    def _say(self, op, d):
        payload = {"op": op, "d": d}
        data = b"\x83" + term(payload) if self._encoding == "etf" else json.dumps(payload).encode()
        self._wire.send(BINARY if self._encoding == "etf" else TEXT, data)

    def _read(self):
        try:
            while not self._stopping.is_set():
                self._read_some()
        except Exception as error:  # noqa: BLE001: waiters must receive any error
            with self._changed:
                self._fault = f"{type(error).__name__}: {error}"
                self._changed.notify_all()

    def _read_some(self):
        if self._wire.is_beat_due():
            self._say(HEARTBEAT, self._seq)
        data = self._wire.receive()
        if data is None:
            return
        if not data:
            raise Failure(f"the server ended the connection without a close frame after {len(self.dispatches)} dispatches")
        self.wire_bytes += len(data)
        for frame in self._wire.frames.feed(data):
            if frame.opcode == CLOSE:
                raise Failure(f"closed by the server with {frame.close_code}: {frame.payload[2:].decode()}")
            if frame.opcode not in (TEXT, BINARY) or not frame.is_last or frame.is_deflated:
                raise Failure(f"a frame with opcode {frame.opcode}, which no message is made of")
            payload = self._decoder.decode(frame.payload) if self._decoder else frame.payload
            self.payload_bytes += len(payload)
            with self._changed:
                self._take(decode_etf(payload) if self._encoding == "etf" else json.loads(payload))
                self._changed.notify_all()

    def _take(self, payload):
        op, d = payload["op"], payload["d"]
        if op == HELLO:
            self._wire.start_beating(d)
            if self._session_id:
                self._sequence.resumes(self._seq)
                self._say(RESUME, {"token": self._token, "session_id": self._session_id, "seq": self._seq})
            else:
                self._say(IDENTIFY, identify(self._token))
        elif op == DISPATCH:
            member = (d["guild_id"], d["user"]["id"]) if payload["t"] == "PRESENCE_UPDATE" else None
            if left_out := self._sequence.takes(payload["s"], payload["t"], member):
                self.left_out[len(self.dispatches)] = left_out
            self._seq = payload["s"]
            if payload["t"] == "READY":
                self._session_id = d["session_id"]
            self.dispatches.append((payload["t"], d))
        elif op != HEARTBEAT_ACK:
            raise Failure(f"op {op}: {d}")


def term(value):
    """External Term Format of a payload."""
    if value is None or isinstance(value, bool):
        name = {None: b"nil", True: b"true", False: b"false"}[value]
        return b"\x77" + bytes([len(name)]) + name
    if isinstance(value, int):
        # No client sends larger ones.
        return b"\x62" + struct.pack(">i", value)
    if isinstance(value, str):
        data = value.encode()
        return b"\x6d" + struct.pack(">I", len(data)) + data
    return b"\x74" + struct.pack(">I", len(value)) + b"".join(term(key) + term(each) for key, each in value.items())
