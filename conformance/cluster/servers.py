"""Site: several nodes as one gateway, with a NATS and a PostgreSQL server of their own.

Owns        the processes, their ports and folders; a proxy-free way to each node.
Invariants  nothing outlives the site: a killed suite leaves servers whose folders are temporary.
Limits      starts and stops are bounded by the run's patience.
"""
import contextlib
import http.client
import json
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import time

from harness.failure import Failure
from harness.node import free_port

POLL_SECONDS = 0.05
# Longer than a program takes that ends by itself: `initdb`, `psql`, a search for a server.
PROGRAM_SECONDS = 60
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ADMIN_KEY = "a key of the cluster suite, 32 bytes long"
JWT_SECRET = "a secret of the cluster suite, 32 bytes"


def nats_server():
    """Path of the NATS server; None if there is none."""
    done = subprocess.run([ROOT / "tools" / "nats-server"], capture_output=True, text=True, check=False, timeout=PROGRAM_SECONDS)
    return done.stdout.strip() if done.returncode == 0 else None


def postgres_programs():
    """Folder of the newest PostgreSQL; None if there is none."""
    folders = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))
    folders = [folder for folder in folders if (folder / "initdb").is_file()]
    if folders:
        return folders[-1]
    found = shutil.which("initdb")
    return pathlib.Path(found).parent if found else None


def unprivileged():
    """User and group that may run PostgreSQL, which refuses root; None for the own ones."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return entry.pw_uid, entry.pw_gid
    return None


class Server:
    """A process with a log, which ends with the site."""

    def __init__(self, name, command, folder, **popen):
        self.name = name
        self.log = folder / f"{name}.log"
        self._command = [str(part) for part in command]
        self._popen = popen
        self._process = None
        self.start()

    def start(self):
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, **self._popen
            )

    def use(self, program):
        """The program of the next start."""
        self._command[0] = str(program)

    @property
    def pid(self):
        return self._process.pid

    def is_alive(self):
        return self._process.poll() is None

    def kill(self, number=signal.SIGKILL):
        if self.is_alive():
            self._process.send_signal(number)
            if number != signal.SIGSTOP:
                self._process.wait(30)

    def signal(self, number):
        self._process.send_signal(number)

    def stop(self, seconds=60):
        """Terminates it; returns its exit code."""
        self._process.terminate()
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise Failure(f"{self.name} does not end after SIGTERM") from error


class Nats(Server):
    def __init__(self, program, folder):
        self.port = free_port()
        data = folder / "nats"
        config = folder / "nats.conf"
        config.write_text(
            f'listen: "127.0.0.1:{self.port}"\njetstream {{ store_dir: "{data}", sync_interval: always }}\n', encoding="utf-8"
        )
        super().__init__("nats", [program, "-c", config], folder)
        self.url = f"nats://127.0.0.1:{self.port}"


class Postgres(Server):
    """A server with one database, as a user that is not root."""

    def __init__(self, programs, folder, patience):
        self.port = free_port()
        self._folder = folder / "postgres"
        self._folder.mkdir()
        self._programs = programs
        user = unprivileged()
        identity = {}
        if user is not None:
            os.chown(self._folder, *user)
            identity = {"user": user[0], "group": user[1], "extra_groups": []}
        data = self._folder / "data"
        subprocess.run(
            [programs / "initdb", "-D", data, "-U", "guildhall", "--auth=trust", "--encoding=UTF8", "--locale=C"],
            check=True, capture_output=True, cwd="/", timeout=PROGRAM_SECONDS, **identity,
        )
        options = ["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_connections=200"]
        command = [programs / "postgres", "-D", data, "-k", self._folder, "-p", self.port, *options]
        super().__init__("postgres", command, folder, cwd="/", **identity)
        self.url = f"postgres://guildhall@127.0.0.1:{self.port}/guildhall?sslmode=disable"
        self._create(patience)

    def _create(self, patience):
        deadline = time.monotonic() + patience.next_wait()
        command = [self._programs / "psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "guildhall", "postgres"]
        while True:
            create = [*command, "-c", "CREATE DATABASE guildhall"]
            done = subprocess.run(create, capture_output=True, text=True, check=False, timeout=PROGRAM_SECONDS)
            if done.returncode == 0:
                return
            if time.monotonic() > deadline:
                raise Failure(f"PostgreSQL does not start: {done.stderr.strip()}")
            time.sleep(POLL_SECONDS)


class ClusterNode(Server):
    """One node: `demo` with a community, or `serve`."""

    def __init__(self, server, folder, number, site, arguments=("serve",)):
        self.port = free_port()
        self.data = folder / f"node-{number}"
        settings = {
            "cluster.nats_url": site.nats.url,
            "cluster.node_name": f"node-{number}",
            "store.url": site.postgres.url,
            "auth.admin_key": ADMIN_KEY,
            "auth.jwt_secret": JWT_SECRET,
            "limits.rest_rate_percent": 0,
            "limits.identify_concurrency": 1000,
            "server.drain_timeout_ms": 4000,
            **site.settings,
        }
        command = [server, *arguments, "--listen", f"127.0.0.1:{self.port}", "--data", self.data]
        for setting, value in settings.items():
            command += ["--set", f"{setting}={value}"]
        super().__init__(f"node-{number}", command, folder)

    def call(self, method, path, body=None, authorization=f"Bearer {ADMIN_KEY}", timeout=30):
        """Status and JSON of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            headers = {"Authorization": authorization, "User-Agent": "DiscordBot (conformance, 1)"}
            data = None
            if body is not None:
                data = json.dumps(body)
                headers["Content-Type"] = "application/json"
            connection.request(method, path, data, headers)
            response = connection.getresponse()
            text = response.read()
            try:
                return response.status, json.loads(text) if text else None
            except ValueError:
                return response.status, text.decode(errors="replace")
        finally:
            connection.close()

    def must(self, method, path, body=None, **options):
        """The answer of a call that must succeed."""
        status, answer = self.call(method, path, body, **options)
        if not 200 <= status < 300:
            raise Failure(f"{self.name}: {method} {path} answered {status}: {answer}")
        return answer

    def is_ready(self):
        try:
            return self.call("GET", "/readyz", timeout=5)[0] == 200
        except OSError:
            return False

    def wait_ready(self, patience):
        deadline = time.monotonic() + patience.next_wait() * 2
        while not self.is_ready():
            if not self.is_alive():
                raise Failure(f"{self.name} has ended: see {self.log}")
            if time.monotonic() > deadline:
                raise Failure(f"{self.name} is not ready in time: see {self.log}")
            time.sleep(POLL_SECONDS)


class Site:
    """Everything. Use it as a context: at its end all processes are killed."""

    def __init__(self, server, folder, patience, settings=None):
        self.server, self.folder, self.patience = server, folder, patience
        self.settings = settings or {}
        self.nodes = []
        self._servers = []
        self.nats = self._own(Nats(nats_server(), folder))
        self.postgres = self._own(Postgres(postgres_programs(), folder, patience))

    def _own(self, server):
        self._servers.append(server)
        return server

    def add(self, arguments=("serve",)):
        node = self._own(ClusterNode(self.server, self.folder, len(self.nodes), self, arguments))
        self.nodes.append(node)
        node.wait_ready(self.patience)
        return node

    def wait_members(self, count):
        """Waits until every live node lists `count` nodes, all of them active."""
        deadline = time.monotonic() + self.patience.next_wait()
        alive = [node for node in self.nodes if node.is_alive()]
        while True:
            known = {node.name: node.must("GET", "/v1/cluster")["nodes"] for node in alive}
            # Only active nodes take guilds.
            active = {name: sum(entry["state"] == "active" for entry in nodes) for name, nodes in known.items()}
            if all(active[name] == len(nodes) == count for name, nodes in known.items()):
                return
            if time.monotonic() > deadline:
                raise Failure(f"not every node knows {count} active nodes: {active}")
            time.sleep(POLL_SECONDS)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in reversed(self._servers):
            with contextlib.suppress(Exception):
                server.kill()
