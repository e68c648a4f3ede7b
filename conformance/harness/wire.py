"""Wire: a WebSocket of the suite's own to the gateway.

Owns        the socket, the handshake, when a heartbeat is due, and the words of the protocol that the suite speaks.
Invariants  one thread receives; any may send.
Limits      `receive` returns within `POLL_SECONDS`, with what has come or with nothing.
Not here    what is said: `peer.py`, `session.py`.     Spec  RFC 6455; docs/protocol/reference.md §1.
"""
import base64
import os
import socket
import threading
import time

from .frames import FrameReader, client_frame

DISPATCH, HEARTBEAT, IDENTIFY, PRESENCE, VOICE = 0, 1, 2, 3, 4
RESUME, REQUEST_MEMBERS, HELLO, HEARTBEAT_ACK = 6, 8, 10, 11

POLL_SECONDS = 0.2
CHUNK_BYTES = 65536
# Every intent that a bot may have.
INTENTS = 53_608_447


def identify(token):
    """Body of IDENTIFY for an account."""
    properties = {"os": "linux", "browser": "conformance", "device": ""}
    return {"token": token, "intents": INTENTS, "large_threshold": 250, "properties": properties}


class Wire:
    """One connection."""

    def __init__(self, port, query, patience):
        self.frames = FrameReader()
        self.socket = socket.create_connection(("127.0.0.1", port), patience.wait_seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._send_lock = threading.Lock()
        self._beat_seconds = None
        self._beat_at = 0
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(
            f"GET /?v=10&{query} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        self.socket.settimeout(POLL_SECONDS)

    def send(self, opcode, payload):
        """Sends one frame."""
        with self._send_lock:
            self.socket.sendall(client_frame(opcode, payload))

    def receive(self):
        """The next bytes, for `frames`: none (b"") once the server has ended the connection, None while there are none."""
        try:
            return self.socket.recv(CHUNK_BYTES)
        except TimeoutError:
            return None

    def start_beating(self, hello):
        """Starts with the interval of HELLO."""
        self._beat_seconds = hello["heartbeat_interval"] / 1000
        self._beat_at = time.monotonic() + self._beat_seconds

    def is_beat_due(self):
        """Whether a heartbeat is to be sent now; the next is due an interval later."""
        if self._beat_seconds is None or time.monotonic() < self._beat_at:
            return False
        self._beat_at = time.monotonic() + self._beat_seconds
        return True
