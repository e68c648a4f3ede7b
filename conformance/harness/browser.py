"""Browser: a Chromium without a window, led by chromedriver over its HTTP interface.

Owns        the chromedriver process and one session of it.
Limits      each call is bounded by the run's patience.
"""
import http.client
import json
import shutil
import subprocess
import time

from .failure import Failure
from .node import free_port

# How long chromedriver may take to end by itself.
END_SECONDS = 10
PROGRAMS = ("chromedriver", "chromium")
ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]


def missing_programs():
    return [program for program in PROGRAMS if shutil.which(program) is None]


class Browser:
    """A browser with one page."""

    def __init__(self, folder, patience):
        self._patience = patience
        self._port = free_port()
        self._log = open(folder / "chromedriver.log", "wb")
        command = ["chromedriver", f"--port={self._port}"]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=subprocess.STDOUT)
        self._session = None

    def __enter__(self):
        deadline = time.monotonic() + self._patience.next_wait()
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise Failure("chromedriver does not start")
            time.sleep(0.1)
        options = {"binary": shutil.which("chromium"), "args": ARGUMENTS}
        capabilities = {"alwaysMatch": {"goog:chromeOptions": options}}
        self._session = self._call("POST", "/session", {"capabilities": capabilities})["sessionId"]
        self._of_session("POST", "/timeouts", {"script": int(self._patience.wait_seconds * 1000)})
        return self

    def __exit__(self, *_):
        try:
            if self._session is not None:
                self._of_session("DELETE", "")
        except (Failure, OSError):
            pass  # It is ended below.
        finally:
            self._process.terminate()
            try:
                self._process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._log.close()

    def version(self):
        return self.run("return navigator.userAgent;")

    def open(self, url):
        self._of_session("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        return self._of_session("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def run_async(self, script, *arguments):
        """The last argument of the script is what it calls with its result."""
        return self._of_session("POST", "/execute/async", {"script": script, "args": list(arguments)})

    def _is_ready(self):
        try:
            return self._call("GET", "/status")["ready"]
        except OSError:
            return False

    def _of_session(self, method, path, body=None):
        return self._call(method, f"/session/{self._session}{path}", body)

    def _call(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=2 * self._patience.wait_seconds)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": "application/json"})
            response = connection.getresponse()
            answer = json.loads(response.read())["value"]
        finally:
            connection.close()
        if response.status != 200:
            raise Failure(f"the browser: {answer['error']}: {answer['message'].splitlines()[0]}")
        return answer
