"""Session: one gateway session on sockets of its own, whose stream a `Decoder` reads.

Owns        the socket of the moment, the thread that reads it, and every dispatch so far.
Doors       `drop` and `resume` from the run; `wait` for a dispatch.
Invariants  sequence numbers are gapless across resumes; every message is one whole payload.
Limits      every wait is bounded by the run's patience.
Spec        docs/protocol.md "Connection".
"""
import base64
import json
import os
import socket
import struct
import threading
import time

from .failure import Failure
from .frames import BINARY, CLOSE, TEXT, FrameReader, client_frame, decode_etf
from .peer import CHUNK_BYTES, DISPATCH, HEARTBEAT, HELLO, IDENTIFY, INTENTS, POLL_SECONDS
from .tap import close_with_reset

RESUME, REQUEST_MEMBERS, HEARTBEAT_ACK = 6, 8, 11


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
        self._send_lock = threading.Lock()
        self._fault = None
        self._session_id = None
        self._seq = None
        # (t, d) of everything that was dispatched.
        self.dispatches = []
        self.payload_bytes = self.wire_bytes = 0
        self._connect()

    def _connect(self):
        query = f"v=10&encoding={self._encoding}" + (f"&compress={self._compression}" if self._compression else "")
        self._socket = socket.create_connection(("127.0.0.1", self._port), self._patience.wait_seconds)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        key = base64.b64encode(os.urandom(16)).decode()
        self._socket.sendall(
            f"GET /?{query} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        self._socket.settimeout(POLL_SECONDS)
        self._frames = FrameReader()
        self._beat_seconds, self._beat_at = None, 0
        self._stopping = threading.Event()
        if self._decoder:
            self._decoder.begin()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def drop(self):
        """Cuts the connection by a reset, wherever the server's stream happens to be."""
        self._stopping.set()
        self._reader.join(self._patience.wait_seconds)
        close_with_reset(self._socket)
        self._check()

    def resume(self):
        """Comes back with a new socket and a new stream."""
        self._connect()

    def close(self):
        """Ends everything; the decoder too."""
        self._stopping.set()
        self._reader.join(10)
        self._socket.close()
        if self._decoder:
            self._decoder.close()

    def request_members(self, guild_id, query, limit):
        """Asks for what only this session gets: large payloads among those that all get."""
        self._say(REQUEST_MEMBERS, {"guild_id": guild_id, "query": query, "limit": limit, "presences": True})

    def wait(self, what, is_it, count=1):
        """Waits until `count` dispatches are such; `is_it(t, d)` is asked for each."""
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
        with self._send_lock:
            self._socket.sendall(client_frame(BINARY if self._encoding == "etf" else TEXT, data))

    def _read(self):
        try:
            while not self._stopping.is_set():
                self._read_some()
        except Exception as error:  # noqa: BLE001: whatever it is, whoever waits must hear of it
            with self._changed:
                self._fault = f"{type(error).__name__}: {error}"
                self._changed.notify_all()

    def _read_some(self):
        if self._beat_seconds is not None and time.monotonic() >= self._beat_at:
            self._beat_at = time.monotonic() + self._beat_seconds
            self._say(HEARTBEAT, self._seq)
        try:
            data = self._socket.recv(CHUNK_BYTES)
        except TimeoutError:
            return
        if not data:
            raise Failure(f"the server ended the connection without a close frame after {len(self.dispatches)} dispatches")
        self.wire_bytes += len(data)
        for frame in self._frames.feed(data):
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
            self._beat_seconds = d["heartbeat_interval"] / 1000
            self._beat_at = time.monotonic() + self._beat_seconds
            if self._session_id:
                self._say(RESUME, {"token": self._token, "session_id": self._session_id, "seq": self._seq})
            else:
                properties = {"os": "linux", "browser": "conformance", "device": ""}
                body = {"token": self._token, "intents": INTENTS, "large_threshold": 250, "properties": properties}
                self._say(IDENTIFY, body)
        elif op == DISPATCH:
            if payload["s"] != (self._seq or 0) + 1:
                raise Failure(f"{payload['t']} has sequence number {payload['s']} after {self._seq}")
            self._seq = payload["s"]
            if payload["t"] == "READY":
                self._session_id = d["session_id"]
            self.dispatches.append((payload["t"], d))
        elif op != HEARTBEAT_ACK:
            raise Failure(f"op {op}: {d}")


def term(value):
    """External Term Format of what a client says."""
    if value is None or isinstance(value, bool):
        name = {None: b"nil", True: b"true", False: b"false"}[value]
        return b"\x77" + bytes([len(name)]) + name
    if isinstance(value, int):
        # No client has larger ones to say.
        return b"\x62" + struct.pack(">i", value)
    if isinstance(value, str):
        data = value.encode()
        return b"\x6d" + struct.pack(">I", len(data)) + data
    return b"\x74" + struct.pack(">I", len(value)) + b"".join(term(key) + term(each) for key, each in value.items())
