"""Prometheus: a real one that scrapes a node and evaluates the alert rules.

Owns        the process, its configuration, its port and its data, in a folder of the caller's.
Doors       `wait_evaluated`, `query`, `alerts`.
Limits      every wait is bounded by the run's patience.
"""
import http.client
import json
import re
import subprocess
import time
import urllib.parse

from harness.failure import Failure
from harness.node import free_port
from harness.toolchain import tail
from queries import RULES

POLL_SECONDS = 0.2
# So that a rate has samples, and each rule was evaluated with them.
ITERATIONS_MIN = 5
# Counters of Prometheus itself that must stay 0.
FAULTS = (
    "prometheus_rule_evaluation_failures_total",
    "prometheus_rule_group_iterations_missed_total",
    "prometheus_target_scrapes_sample_duplicate_timestamp_total",
    "prometheus_target_scrapes_sample_out_of_order_total",
    "prometheus_target_scrapes_sample_out_of_bounds_total",
    "prometheus_target_scrape_pool_exceeded_label_limits_total",
)


class Prometheus:
    """Scrapes 127.0.0.1:`node_port` each second."""

    def __init__(self, folder, node_port, patience):
        self._patience = patience
        self._port = free_port()
        self._log = folder / "prometheus.log"
        config = folder / "prometheus.yml"
        # JSON is YAML.
        config.write_text(
            json.dumps({
                "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                "rule_files": [str(RULES)],
                "scrape_configs": [
                    {"job_name": "guildhall", "static_configs": [{"targets": [f"127.0.0.1:{node_port}"]}]}
                ],
            }),
            encoding="utf-8",
        )
        command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}"]
        command += [f"--web.listen-address=127.0.0.1:{self._port}"]
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()

    def wait_evaluated(self):
        """Waits until every rule was evaluated several times; fails if a scrape or an evaluation did."""
        self._wait("answer", lambda: self._get("/-/ready") is not None)
        self._wait("scrape", lambda: [each["health"] for each in self._targets()] == ["up"])
        wanted = self._counter("prometheus_rule_group_iterations_total") + ITERATIONS_MIN
        self._wait("evaluate", lambda: self._counter("prometheus_rule_group_iterations_total") >= wanted)
        for rule in self.rules():
            if rule["health"] != "ok":
                raise Failure(f"{rule['name']} is {rule['health']}: {rule.get('lastError')}")
        for name in FAULTS:
            if self._counter(name):
                raise Failure(f"{name} is {self._counter(name):.0f}:\n{tail(self._log)}")

    def wait_alert(self, name):
        """Waits until an alert is pending or firing."""
        self._wait(f"notice {name}", lambda: name in (each["labels"]["alertname"] for each in self.alerts()))

    def query(self, expression):
        """The result of an instant query."""
        return self._api("/api/v1/query", query=expression)["result"]

    def rules(self):
        """Every rule of the file, with its health."""
        return [rule for group in self._api("/api/v1/rules")["groups"] for rule in group["rules"]]

    def alerts(self):
        """Pending and firing alerts."""
        return self._api("/api/v1/alerts")["alerts"]

    def _targets(self):
        return self._api("/api/v1/targets")["activeTargets"]

    def _counter(self, name):
        text = self._get("/metrics") or ""
        found = re.findall(rf"^{name}(?:\{{[^\n]*\}})? (\S+)$", text, re.M)
        if not found:
            raise Failure(f"this Prometheus has no {name}")
        return sum(float(value) for value in found)

    def _api(self, path, **parameters):
        text = self._get(f"{path}?{urllib.parse.urlencode(parameters)}", accept=(200, 400, 422))
        answer = json.loads(text) if text else {"error": "no answer"}
        if answer.get("status") != "success":
            raise Failure(f"Prometheus, {path} {parameters or ''}: {answer['error']}")
        return answer["data"]

    def _get(self, path, accept=(200,)):
        """The body; none while nothing listens, or for another status."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=self._patience.wait_seconds)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            text = response.read().decode()
            return text if response.status in accept else None
        except OSError:
            return None
        finally:
            connection.close()

    def _wait(self, what, is_so):
        deadline = time.monotonic() + self._patience.next_wait()
        while not is_so():
            if self._process.poll() is not None:
                raise Failure(f"Prometheus ended with code {self._process.returncode}:\n{tail(self._log)}")
            if time.monotonic() > deadline:
                raise Failure(f"Prometheus does not {what} in time:\n{tail(self._log)}")
            time.sleep(POLL_SECONDS)
