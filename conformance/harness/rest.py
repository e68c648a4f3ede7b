"""Rest: plain calls of the REST API, at the pace the server asks for.

Owns        one account's connection and what it was told about rate limits.
Invariants  a 429 is obeyed and must be complete, for several libraries raise on an incomplete one.
Spec        docs/protocol/reference.md §10.
"""
import http.client
import json
import time
import urllib.parse

from .failure import Failure

TRIES = 20
# Headers have milliseconds, and the window ends in one of them.
RESET_MARGIN_SECONDS = 0.05
# The server closes idle connections after some time; a call must not meet that.
IDLE_SECONDS = 3


class Rest:
    """The API as one account sees it."""

    def __init__(self, api_base, authorization, patience):
        base = urllib.parse.urlsplit(api_base)
        self._connection = http.client.HTTPConnection(base.hostname, base.port, timeout=patience.wait_seconds)
        self._path = base.path.rstrip("/") + "/v10"
        self._headers = {"Authorization": authorization, "User-Agent": "DiscordBot (conformance, 1)"}
        self._used_at = time.monotonic()
        # When each route may be called again, by the headers of its last answer.
        self._not_before = {}

    def close(self):
        self._connection.close()

    def get(self, path):
        return self._call("GET", path)

    def post(self, path, body=None):
        return self._call("POST", path, body)

    def patch(self, path, body):
        return self._call("PATCH", path, body)

    def put(self, path, body=None):
        return self._call("PUT", path, body)

    def delete(self, path):
        return self._call("DELETE", path)

    def wait_for_room(self, method, path):
        """Waits until the account's bucket has room again, so that a library of the same account gets no 429."""
        time.sleep(max(0, self._not_before.pop((method, path), 0) - time.monotonic()))

    def _call(self, method, path, body=None):
        for _ in range(TRIES):
            self.wait_for_room(method, path)
            status, headers, answer = self._request(method, path, body)
            if status == 429:
                time.sleep(retry_after(method, path, headers, answer))
                continue
            if not 200 <= status < 300:
                raise Failure(f"{method} {path} answered {status}: {answer}")
            if headers.get("x-ratelimit-remaining") == "0":
                wait = float(headers.get("x-ratelimit-reset-after", 0)) + RESET_MARGIN_SECONDS
                self._not_before[method, path] = time.monotonic() + wait
            return answer
        raise Failure(f"{method} {path}: still rate limited after {TRIES} tries")

    def _request(self, method, path, body):
        headers = dict(self._headers)
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        elif method != "GET":
            headers["Content-Length"] = "0"
        if time.monotonic() - self._used_at > IDLE_SECONDS:
            self._connection.close()  # the next request opens another one
        try:
            self._connection.request(method, self._path + path, data, headers)
            response = self._connection.getresponse()
            text = response.read()
            self._used_at = time.monotonic()
        except (OSError, http.client.HTTPException) as error:
            raise Failure(f"{method} {path}: {error!r}") from error
        fields = {name.lower(): value for name, value in response.getheaders()}
        # Two of the libraries read a body as JSON only where the type is exactly this, without a charset.
        if text and fields.get("content-type") != "application/json":
            raise Failure(f"{method} {path} answered with the type {fields.get('content-type')}")
        return response.status, fields, json.loads(text) if text else None


def retry_after(method, path, headers, answer):
    """Seconds to wait after a 429."""
    wanted = ("message", "retry_after", "global")
    missing = [key for key in wanted if not isinstance(answer, dict) or key not in answer]
    missing += [name for name in ("retry-after", "x-ratelimit-scope") if name not in headers]
    if missing:
        raise Failure(f"{method} {path}: the 429 lacks {', '.join(missing)}")
    return float(answer["retry_after"])
