"""Crowd: some hundred sessions on one event loop, that resume and identify again as client libraries do.

Owns        one connection per account, its stream's decompressor, and the session's log.
Invariants  what comes is decoded completely; sequence numbers have no gaps but those that a replay may have (`Judge`).
Limits      a handshake, and the wait for the first dispatch, take `SLOW_SECONDS` at most; then the account tries another node.
Not here    what must have come: `history.py`.
"""
import asyncio
import base64
import json
import os
import random
import zlib

from harness.failure import Failure
from harness.frames import BINARY, CLOSE, TEXT, FrameReader, client_frame, decode_etf
from harness.sequence import SequenceJudge
from harness.session import term
from harness.wire import DISPATCH, HEARTBEAT, HEARTBEAT_ACK, HELLO, IDENTIFY, INTENTS, RESUME
from history import LIVE, SessionLog

RECONNECT, INVALID_SESSION = 7, 9
PING, PONG = 9, 10
# Without presences: each identification of one member would be an event for all others.
QUIET_INTENTS = INTENTS & ~(1 << 8)
SLOW_SECONDS = 8
# Attempts to resume before the account identifies again at any node.
RESUME_TRIES = 3
PUBLISHED = "FAULTS_PUBLISHED"


def modes():
    """Encodings and compressions that this Python can read, each with how often it comes."""
    found = [("json", None)] * 2 + [("json", "zlib-stream")] * 3 + [("etf", None), ("etf", "zlib-stream")]
    try:
        import zstandard  # noqa: F401
    except ImportError:
        return found
    return found + [("json", "zstd-stream")] * 3


def decompressor(compression):
    """Bytes in, bytes out, for one connection."""
    if compression == "zlib-stream":
        return zlib.decompressobj().decompress
    if compression == "zstd-stream":
        import zstandard

        return zstandard.ZstdDecompressor().decompressobj().decompress
    return bytes


class Account:
    """A bot: its token, its guilds, and what it may view."""

    def __init__(self, name, user_id, token):
        self.name, self.user_id, self.token = name, user_id, token
        self.guild_ids = set()
        self.views = set()
        self.wanders = set()


class Judge(SequenceJudge):
    """Presences that come while a replay is written, after its RESUMED, supersede some of that replay: the gap's presence is
    then behind RESUMED."""

    def takes(self, seq, name, member=None):
        if name != "RESUMED" or not self._is_replay or seq <= self.seq:
            return super().takes(seq, name, member)
        left_out, self.seq = seq - self.seq - 1, seq
        self._is_replay = False
        return left_out


class Ended(Exception):
    """The connection has ended, with or without a reason."""


class Guest:
    """One account's client."""

    def __init__(self, account, mode, nodes, record, run, seed):
        self.account = account
        self.encoding, self.compression = mode
        self._nodes, self._record, self._run = nodes, record, run
        self._chance = random.Random(seed)
        # One in eight sees presences too.
        self._intents = INTENTS if seed % 8 == 0 else QUIET_INTENTS
        self._node = nodes[seed % len(nodes)]
        self._session_id = None
        self._seq = None
        self._sequence = None
        self._reader = self._writer = None
        self._is_over = False
        # When the last connection with a session ended.
        self._down_at = 0.0
        self.log = None
        self.is_connected = False
        # When its session began or was resumed.
        self.there_since = 0.0
        self.identified = self.resumed = self.ended = 0
        # When the last dispatch came, and the longest time without one since `begin_watch`.
        self._heard_at = 0.0
        self._silence = 0.0

    async def run(self):
        """Connects again and again until `finish`."""
        tries = 0
        while not self._is_over:
            try:
                await self._connect()
                tries = 0
            except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, Ended) as error:
                self._run.note_end(self, error)
                tries = 0 if self.is_connected else tries + 1
                self.ended += 1
            except Failure as failure:
                self._record.report("protocol", self.label(), str(failure))
                self._forget()
            except Exception as error:  # noqa: BLE001: what cannot be read is the server's fault until proven otherwise
                self._record.report("protocol", self.label(), repr(error))
                self._forget()
            finally:
                if self.is_connected:
                    self._down_at = self._run.now()
                self.is_connected = False
                if self._writer is not None:
                    self._writer.transport.abort()
                self._writer = None
            if tries > 0:
                # As a load balancer would: another node takes it, and its session moves there.
                self._node = self._chance.choice([node for node in self._nodes if node is not self._node])
            if tries >= RESUME_TRIES:
                self._forget()
            await asyncio.sleep(self._chance.uniform(0.3, 1.2))

    def is_at(self, node):
        """Whether it is connected to a node, with a session."""
        return self.is_connected and self._node is node

    def begin_watch(self):
        """From here on `silence` counts."""
        self._heard_at, self._silence = self._run.now(), 0.0

    def silence(self):
        """Seconds of the longest time without a dispatch."""
        return max(self._silence, self._run.now() - self._heard_at)

    def drop(self):
        """Its network breaks: the connection ends by RST, and it comes back with a RESUME."""
        if self.is_connected and self._writer is not None:
            self._writer.transport.abort()

    def finish(self):
        """The run is over: a session that is connected now must have everything."""
        self._is_over = True
        if self.log is not None:
            self.log.finish(self._run.now(), LIVE if self.is_connected else "ended")
        if self._writer is not None:
            self._writer.transport.abort()

    def label(self):
        return f"{self.account.name} at {self._node.name} {self.encoding}+{self.compression} session {self._session_id}"

    def _forget(self):
        """The session is lost."""
        if self.log is not None:
            self.log.finish(self._run.now() if self.is_connected else self._down_at)
        self._session_id = self._seq = self._sequence = self.log = None

    async def _connect(self):
        self._reader, self._writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", self._node.port), SLOW_SECONDS)
        query = f"encoding={self.encoding}" + (f"&compress={self.compression}" if self.compression else "")
        key = base64.b64encode(os.urandom(16)).decode()
        self._writer.write(
            f"GET /?v=10&{query} HTTP/1.1\r\nHost: 127.0.0.1:{self._node.port}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        frames, decompress = FrameReader(), decompressor(self.compression)
        beating = None
        try:
            while not self._is_over:
                bound = None if self.is_connected else SLOW_SECONDS
                data = await asyncio.wait_for(self._reader.read(65_536), bound)
                if not data:
                    raise Ended("closed without a close frame")
                received = frames.feed(data)
                if frames.head is not None and " 101 " not in frames.head.split("\r\n")[0]:
                    raise Ended(f"refused: {frames.head.split(chr(13))[0]}")
                for frame in received:
                    if frame.opcode == CLOSE:
                        raise Ended(f"closed with {frame.close_code}")
                    if frame.opcode == PING:
                        self._writer.write(client_frame(PONG, frame.payload))
                    elif frame.opcode in (TEXT, BINARY):
                        payload = decompress(frame.payload)
                        payload = decode_etf(payload) if self.encoding == "etf" else json.loads(payload)
                        if payload["op"] == HELLO:
                            beating = asyncio.create_task(self._beat(payload["d"]["heartbeat_interval"] / 1000))
                        self._take(payload)
        finally:
            if beating is not None:
                beating.cancel()

    async def _beat(self, seconds):
        await asyncio.sleep(seconds * self._chance.random())
        while True:
            self._say(HEARTBEAT, self._seq)
            await asyncio.sleep(seconds)

    def _say(self, op, d):
        payload = {"op": op, "d": d}
        if self.encoding == "etf":
            self._writer.write(client_frame(BINARY, b"\x83" + term(payload)))
        else:
            self._writer.write(client_frame(TEXT, json.dumps(payload).encode()))

    def _take(self, payload):
        op, d = payload["op"], payload["d"]
        if op == HELLO:
            token = self.account.token
            if self._session_id is not None:
                self._sequence.resumes(self._seq)
                self._say(RESUME, {"token": token, "session_id": self._session_id, "seq": self._seq})
            else:
                properties = {"os": "linux", "browser": "conformance", "device": ""}
                self._say(IDENTIFY, {"token": token, "intents": self._intents, "large_threshold": 250, "properties": properties})
        elif op == DISPATCH:
            self._dispatch(payload["s"], payload["t"], d)
        elif op == INVALID_SESSION:
            if not d:
                self._forget()
            raise Ended(f"op 9 {d}")
        elif op == RECONNECT:
            raise Ended("op 7")
        elif op not in (HEARTBEAT, HEARTBEAT_ACK):
            raise Failure(f"op {op}: {d}")

    def _dispatch(self, seq, name, d):
        now = self._run.now()
        self._silence, self._heard_at = max(self._silence, now - self._heard_at), now
        if name == "READY":
            self._session_id = str(d["session_id"])
            self._sequence = Judge()
            self.log = SessionLog(self.label(), self.account.views, self.account.wanders, self._record.report)
            self._record.sessions.append(self.log)
            self.identified += 1
            self.is_connected, self.there_since = True, now
        if self._sequence is None:
            raise Failure(f"{name} came before READY")
        member = (d["guild_id"], d["user"]["id"]) if name == "PRESENCE_UPDATE" else None
        self._sequence.takes(seq, name, member)
        self._seq = seq
        if name == "RESUMED":
            self.resumed += 1
            self._run.note_resumed()
            self.is_connected, self.there_since = True, now
        elif name == "GUILD_CREATE":
            guild_id = int(d["id"])
            if d.get("unavailable"):
                self.log.unavailable(guild_id, now)
            else:
                newest = {int(channel["id"]): int(channel.get("last_message_id") or 0) for channel in d["channels"]}
                self.log.available(guild_id, newest, now)
        elif name == "GUILD_DELETE":
            if not d.get("unavailable"):
                raise Failure(f"GUILD_DELETE: {d}")
            self.log.unavailable(int(d["id"]), now)
        elif name == "MESSAGE_CREATE":
            self.log.message(int(d["guild_id"]), int(d["channel_id"]), int(d["id"]), now)
        elif name == PUBLISHED:
            self.log.keyed(d["key"])

    def lacks(self, newest_by_channel):
        """Channels whose newest message this session has not seen; all guilds that are unavailable."""
        if self.log is None or not self.is_connected:
            return ["no session"]
        missing = [f"guild {guild_id}" for guild_id in self.account.guild_ids if not self.log.has(guild_id)]
        for channel_id, newest in newest_by_channel.items():
            if channel_id in self.account.views and self.log.newest(channel_id) < newest:
                missing.append(f"channel {channel_id}")
        return missing


async def call(port, method, path, body=None, authorization="", timeout=3.0):
    """Status and JSON of the answer of one request. Raises OSError or TimeoutError if there is none."""
    return await asyncio.wait_for(_call(port, method, path, body, authorization), timeout)


async def _call(port, method, path, body, authorization):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: {authorization}\r\n"
        head += "User-Agent: DiscordBot (conformance, 1)\r\nConnection: close\r\n"
        if body is not None:
            head += "Content-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        answer = await reader.read(-1)
    finally:
        writer.transport.abort()
    head, end, text = answer.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    if not end or ("content-length" in fields and len(text) < int(fields["content-length"])):
        raise ConnectionError("the answer is incomplete")
    if fields.get("transfer-encoding") == "chunked":
        text = dechunk(text)
    try:
        return int(lines[0].split(" ")[1]), json.loads(text) if text else None
    except ValueError:
        return int(lines[0].split(" ")[1]), text.decode("utf-8", "replace")


def dechunk(data):
    """Body of a chunked answer."""
    body = b""
    while True:
        size, _, data = data.partition(b"\r\n")
        length = int(size.split(b";")[0] or b"0", 16)
        if not length:
            return body
        body, data = body + data[:length], data[length + 2 :]
