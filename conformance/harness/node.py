"""Node: one fresh server process with its own data folder.

Owns        the process, its port, its log, and `demo.json` once the node is ready.
Doors       `wait_ready` and `stop`; `mint_user_tokens` starts the process anew.
Limits      start and stop are bounded by the run's patience.
"""
import http.client
import json
import pathlib
import re
import signal
import socket
import subprocess
import time
import urllib.request

from .failure import Failure

POLL_SECONDS = 0.05

SEED = 1


def free_port():
    """A port that is free now; a race for it shows as a server that does not start."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]


class Node:
    """A server under test. It announces `gateway_port` as its gateway, where a proxy may listen; None: its own port."""

    def __init__(self, server, folder, gateway_port, community, patience):
        self._server = server
        self._patience = patience
        self.port = free_port()
        self.log = folder / "server.log"
        self._data = folder / "data"
        self._live = folder / "live.toml"
        self._live.write_text("", encoding="utf-8")
        self._command = [server, "demo", "--config", self._live, "--listen", f"127.0.0.1:{self.port}", "--data", self._data]
        self._command += ["--members", community.members, "--rate", community.rate, "--seed", SEED]
        self._command += ["--public-url", f"ws://127.0.0.1:{gateway_port or self.port}"]
        for setting, value in community.settings:
            self._command += ["--set", f"{setting}={value}"]
        self._log_file = open(self.log, "wb")
        try:
            self._process = self._start()
        except Failure:
            self._log_file.close()
            raise
        self.demo = None

    def _start(self):
        try:
            return subprocess.Popen(
                [str(part) for part in self._command],
                stdin=subprocess.DEVNULL,
                stdout=self._log_file,
                stderr=subprocess.STDOUT,
            )
        except OSError as error:
            raise Failure(f"the server does not start: {error}") from error

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._log_file.close()

    def wait_ready(self):
        """Waits until /readyz answers 200, then reads the demo's ids and tokens."""
        deadline = time.monotonic() + self._patience.next_wait()
        while not self._is_ready():
            self.check_alive()
            if time.monotonic() > deadline:
                raise Failure("the server is not ready in time")
            time.sleep(POLL_SECONDS)
        self.demo = json.loads(pathlib.Path(self._data, "demo.json").read_text(encoding="utf-8"))

    def _is_ready(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def check_alive(self):
        """Fails when the process has ended."""
        if self._process.poll() is not None:
            raise Failure(f"the server ended with code {self._process.returncode}")

    def change_settings(self, toml):
        """Settings that apply while it runs, instead of those of the last call."""
        self._live.write_text(toml, encoding="utf-8")
        self._process.send_signal(signal.SIGHUP)

    def metric(self, series):
        """The sum of a counter over all its labels; None if the node exports no such series."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=30) as answer:
            values = re.findall(rf"^{series}(?:\{{[^}}]*\}})? (\d+)", answer.read().decode(), re.M)
        return sum(map(int, values)) if values else None

    def stop(self):
        """Terminates the server, and waits for its end."""
        self.check_alive()
        if not self._is_ready():
            raise Failure("the server is no longer ready")
        self._process.terminate()
        try:
            self._process.wait(self._patience.next_wait())
        except subprocess.TimeoutExpired as error:
            raise Failure("the server does not end after SIGTERM") from error
        if self._process.returncode != 0:
            raise Failure(f"the server ended with code {self._process.returncode} after SIGTERM")

    def mint_user_tokens(self, user_ids):
        """Tokens by user id. The store belongs to one process, so the node is stopped meanwhile."""
        self.stop()
        tokens = {}
        for user_id in user_ids:
            command = [str(self._server), "token", "user", "--id", user_id, "--data", str(self._data)]
            try:
                bound = self._patience.next_wait()
                done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=bound)
            except subprocess.TimeoutExpired as error:
                raise Failure(f"making a token for user {user_id} does not end") from error
            if done.returncode != 0:
                raise Failure(f"no token for user {user_id}: {done.stderr.strip()}")
            tokens[user_id] = done.stdout.strip()
        self._process = self._start()
        self.wait_ready()
        return tokens
