"""A gateway client: prints every event as one line of JSON, and resumes after a lost connection. See ../README.md.

    pip install -r requirements.txt && TOKEN='…' python client.py ws://127.0.0.1:8080
"""
import json
import os
import random
import sys
import time
import urllib.request

import zstandard
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import connect

WINDOW_BYTES_MAX = 1 << 21
MESSAGE_BYTES_MAX = 64 << 20
GUILDS, GUILD_MESSAGES, MESSAGE_CONTENT = 1 << 0, 1 << 9, 1 << 15
# The node refuses these clients, and would refuse them again.
FATAL_CODES = {4002, 4004, 4010, 4011, 4012, 4013, 4014, 4015}


class Client:
    """One session, over as many connections as it takes."""

    def __init__(self, url, token, dictionary_id=None):
        self._url, self._token = url, token
        self._query = "/?v=10&encoding=json&compress=zstd-stream"
        self._dictionary = None
        if dictionary_id:
            self._query += f"&dict={dictionary_id}"
            self._dictionary = fetch_dictionary(url, dictionary_id)
        self._session_id = self._seq = None
        self._resume_url = url

    def run(self):
        """Prints events until the node refuses the client. Returns the code with which it did."""
        delay = 1
        while True:
            seq = self._seq
            try:
                self._run_connection()
                code = "reconnect"
            except ConnectionClosed as closed:
                code = closed.rcvd.code if closed.rcvd else "lost"
            except (OSError, InvalidHandshake) as error:
                code = error
            print(f"client: the connection ended ({code})", file=sys.stderr)
            if code in FATAL_CODES:
                return code
            delay = 1 if self._seq != seq else min(2 * delay, 60)
            time.sleep(delay * random.uniform(0.5, 1.5))

    def _run_connection(self):
        url = self._resume_url if self._session_id else self._url
        # A new connection is a new stream.
        decompressor = zstandard.ZstdDecompressor(dict_data=self._dictionary, max_window_size=WINDOW_BYTES_MAX)
        stream = decompressor.decompressobj()
        # The stream is compressed already, so permessage-deflate is not offered.
        with connect(url + self._query, compression=None, max_size=MESSAGE_BYTES_MAX) as socket:
            interval, is_answered, beat_at = None, True, time.monotonic() + 20
            while True:
                try:
                    piece = socket.recv(max(0, beat_at - time.monotonic()))
                except TimeoutError:
                    if interval is None or not is_answered:
                        return
                    send(socket, 1, self._seq)
                    is_answered, beat_at = False, time.monotonic() + interval
                    continue
                # One message is one piece of the stream, and inflates to one whole payload.
                text = stream.decompress(piece).decode()
                payload = json.loads(text)
                match payload["op"]:
                    case 10:  # HELLO: beat at its interval, the first time after a random part of it
                        interval = payload["d"]["heartbeat_interval"] / 1000
                        beat_at = time.monotonic() + interval * random.random()
                        self._log_in(socket)
                    case 11:
                        is_answered = True
                    case 1:  # the node requests a heartbeat
                        send(socket, 1, self._seq)
                    case 7:  # reconnect, and resume
                        return
                    case 9:  # the session has ended: identify again
                        self._session_id = self._seq = None
                        return
                    case 0:
                        self._seq = payload["s"]
                        if payload["t"] == "READY":
                            self._session_id = payload["d"]["session_id"]
                            self._resume_url = payload["d"]["resume_gateway_url"]
                        print(text, flush=True)

    def _log_in(self, socket):
        if self._session_id:
            send(socket, 6, {"token": self._token, "session_id": self._session_id, "seq": self._seq})
            return
        properties = {"os": sys.platform, "browser": "example", "device": ""}
        intents = GUILDS | GUILD_MESSAGES | MESSAGE_CONTENT
        send(socket, 2, {"token": self._token, "intents": intents, "properties": properties})


def send(socket, op, d):
    socket.send(json.dumps({"op": op, "d": d}))


def fetch_dictionary(url, dictionary_id):
    """A dictionary is named by its content, so a client may keep it for ever."""
    http_url = url.replace("ws", "http", 1)
    with urllib.request.urlopen(f"{http_url}/dictionaries/{dictionary_id}", timeout=30) as answer:
        return zstandard.ZstdCompressionDict(answer.read())


def main():
    if len(sys.argv) != 2 or "TOKEN" not in os.environ:
        return "usage: TOKEN='…' [DICT=ID] python client.py ws://HOST:PORT"
    code = Client(sys.argv[1].rstrip("/"), os.environ["TOKEN"], os.environ.get("DICT")).run()
    return f"client: the node refuses this client ({code})"


if __name__ == "__main__":
    sys.exit(main())
