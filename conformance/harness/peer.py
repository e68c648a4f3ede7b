"""Peer: an account's own connection to the gateway, without a library and past the tap.

Owns        a thread that reads and beats, and what its events say of presences and voice.
Doors       `show` and `join_voice` from the scenario; `wait` for a state.
Invariants  plain JSON, no compression, no resume: what it must show is left to the libraries.
Limits      every wait is bounded by the run's patience.
Spec        RFC 6455; docs/protocol/reference.md §1.
"""
import json
import threading
import time

from .failure import Failure
from .frames import BINARY, CLOSE, TEXT
from .wire import DISPATCH, HEARTBEAT, HELLO, IDENTIFY, PRESENCE, VOICE, Wire, identify

CONTINUATION, PING, PONG = 0, 9, 10
NORMAL = 1000


class Peer:
    """A connected account with the presences and voice states that it received."""

    def __init__(self, port, token, patience):
        self._patience = patience
        self._changed = threading.Condition()
        self._parts = b""
        self._seq = None
        self._fault = None
        self._stopping = threading.Event()
        self.user_id = None
        self.guild_ids = set()
        # By user id, of all users that are not offline; activities are names.
        self.presences = {}
        # Channel ids by user id.
        self.voice = {}
        self._wire = Wire(port, "encoding=json", patience)
        self._say(IDENTIFY, identify(token))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Leaves for good: the session ends, and the account goes offline."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        try:
            self._wire.send(CLOSE, NORMAL.to_bytes(2, "big"))
        except OSError:
            pass  # it is gone already
        self._reader.join(10)
        self._wire.socket.close()

    def wait(self, what, is_so):
        """Waits until `is_so()`, which is evaluated after every event."""
        deadline = time.monotonic() + self._patience.next_wait()
        with self._changed:
            while not is_so():
                if self._fault:
                    raise Failure(f"a peer's connection failed while waiting for {what}: {self._fault}")
                left = deadline - time.monotonic()
                if left <= 0:
                    raise Failure(f"a peer waited in vain for {what}")
                self._changed.wait(left)

    def wait_guild(self, guild_id):
        """Waits until the guild is there."""
        self.wait(f"guild {guild_id}", lambda: guild_id in self.guild_ids)

    def show(self, status, *activities):
        """Shows a presence."""
        games = [{"name": name, "type": 0} for name in activities]
        self._say(PRESENCE, {"status": status, "since": None, "afk": False, "activities": games})

    def join_voice(self, guild_id, channel_id):
        """Joins a voice channel, or leaves with None."""
        body = {"guild_id": guild_id, "channel_id": channel_id, "self_mute": False, "self_deaf": False}
        self._say(VOICE, body)

    def _say(self, op, d):
        self._wire.send(TEXT, json.dumps({"op": op, "d": d}).encode())

    def _read(self):
        try:
            while self._read_some():
                pass
        except Exception as error:  # noqa: BLE001: waiters must receive any error
            if not self._stopping.is_set():
                self._fault = repr(error)
        with self._changed:
            self._fault = self._fault or "it has ended"
            self._changed.notify_all()

    def _read_some(self):
        if self._wire.is_beat_due():
            self._say(HEARTBEAT, self._seq)
        data = self._wire.receive()
        if data is None:
            return not self._stopping.is_set()
        for frame in self._wire.frames.feed(data):
            self._take(frame)
        return bool(data)

    def _take(self, frame):
        if frame.opcode == PING:
            self._wire.send(PONG, frame.payload)
        elif frame.opcode == CLOSE and not self._stopping.is_set():
            raise ConnectionError(f"closed by the server with {frame.close_code}")
        elif frame.opcode in (TEXT, BINARY, CONTINUATION):
            self._parts += frame.payload
            if frame.is_last:
                payload, self._parts = json.loads(self._parts), b""
                with self._changed:
                    self._handle(payload)
                    self._changed.notify_all()

    def _handle(self, payload):
        op, d = payload["op"], payload["d"]
        if op == HELLO:
            self._wire.start_beating(d)
        elif op == DISPATCH:
            self._seq = payload["s"]
            match payload["t"]:
                case "READY":
                    self.user_id = d["user"]["id"]
                    for guild in d["guilds"]:
                        self._handle_guild(guild)
                case "GUILD_CREATE":
                    self._handle_guild(d)
                case "PRESENCE_UPDATE":
                    self._handle_presence(d)
                case "VOICE_STATE_UPDATE":
                    self._handle_voice(d)
                case "GUILD_MEMBER_REMOVE":
                    self.presences.pop(d["user"]["id"], None)

    def _handle_guild(self, guild):
        if guild.get("unavailable"):
            return
        self.guild_ids.add(guild["id"])
        for presence in guild["presences"]:
            self._handle_presence(presence)
        for state in guild["voice_states"]:
            self._handle_voice(state)

    def _handle_presence(self, presence):
        user_id = presence["user"]["id"]
        if presence["status"] == "offline":
            self.presences.pop(user_id, None)
        else:
            activities = sorted(activity["name"] for activity in presence["activities"])
            self.presences[user_id] = (presence["status"], activities)

    def _handle_voice(self, state):
        if state["channel_id"] is None:
            self.voice.pop(state["user_id"], None)
        else:
            self.voice[state["user_id"]] = state["channel_id"]
