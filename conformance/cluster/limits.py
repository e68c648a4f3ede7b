"""Limits of accounts, idempotency keys and results of published events, which hold for all nodes together (docs/cluster.md
"Limits")."""
import concurrent.futures
import json
import time

from harness.failure import Failure
from harness.frames import CLOSE, TEXT
from harness.wire import DISPATCH, HELLO, IDENTIFY, Wire, identify
from session_client import Client, INVALID_SESSION

USER_SESSIONS_MAX = 6
# Nodes report what changed ten times a second; one that is busy is late.
COUNTS_SETTLE_SECONDS = 5
# Attempts of a check that needs the home of an account to answer.
ATTEMPTS_MAX = 4
# Settings of the site that the checks rely on.
SETTINGS = {"limits.user_sessions_max": USER_SESSIONS_MAX}
READY, TOO_MANY_SESSIONS = "READY", 4015
# Of a bot that may have every intent.
BOT_FLAGS = 1 << 12 | 1 << 14 | 1 << 18


class OneIdentify:
    """A connection that identifies once: `result` is READY, a close code, or op 9."""

    def __init__(self, node, token, patience, **fields):
        self.node = node
        self.wire = Wire(node.port, "encoding=json", patience)
        self.result = None
        payload = {**identify(token.removeprefix("Bot ")), **fields}
        if not token.startswith("Bot "):
            del payload["intents"]
        deadline = time.monotonic() + patience.next_wait()
        while self.result is None:
            if time.monotonic() > deadline:
                raise Failure(f"{node.name} does not answer an IDENTIFY")
            data = self.wire.receive()
            if data == b"":
                raise Failure(f"{node.name} closed a connection without a code")
            for frame in self.wire.frames.feed(data or b""):
                self._take(frame, payload)

    def _take(self, frame, payload):
        if frame.opcode == CLOSE:
            self.result = frame.close_code
            return
        message = json.loads(frame.payload)
        if message["op"] == HELLO:
            self.wire.send(TEXT, json.dumps({"op": IDENTIFY, "d": payload}).encode())
        elif message["op"] == INVALID_SESSION:
            self.result = INVALID_SESSION
        elif message["op"] == DISPATCH and message["t"] == READY:
            self.result = READY

    def close(self):
        """Ends the session: a close frame with 1000."""
        self.wire.send(CLOSE, (1000).to_bytes(2, "big"))
        # Reads to the end: closing a socket with unread bytes would discard the close frame.
        deadline = time.monotonic() + 5
        while self.wire.receive() != b"" and time.monotonic() < deadline:
            pass
        self.wire.socket.close()


def identify_everywhere(site, token, count, **fields):
    """`count` IDENTIFYs at each node, all at once."""
    nodes = [node for node in site.nodes for _ in range(count)]
    with concurrent.futures.ThreadPoolExecutor(len(nodes)) as pool:
        return list(pool.map(lambda node: OneIdentify(node, token, site.patience, **fields), nodes))


def expect(what, found, expected):
    if found != expected:
        raise Failure(f"{what}: {found} instead of {expected}")


def new_account(node, name, **fields):
    """Its token."""
    user_id = node.must("PUT", f"/v1/users/ext:{name}", {"username": name, **fields})["id"]
    token = node.must("POST", f"/v1/users/{user_id}/tokens", {})["token"]
    return f"Bot {token}" if fields.get("bot") else token


def identify_until_ready(site, node, token):
    """A session at this node, which has room for one soon."""
    deadline = time.monotonic() + site.patience.next_wait()
    while (client := OneIdentify(node, token, site.patience)).result != READY:
        if time.monotonic() > deadline:
            raise Failure(f"{node.name} has no room for a session of the account")
        time.sleep(0.2)
    return client


def with_homes_that_answer(check, site):
    """Calls the check with a number of its own. A node whose question to an account's home stays without an answer for half
    a second counts for itself, as its log says (docs/cluster.md "Limits"): the check is made again then."""
    for number in range(1, ATTEMPTS_MAX + 1):
        silences = count_silences(site)
        try:
            return check(site, number)
        except Failure as failure:
            if number == ATTEMPTS_MAX or count_silences(site) == silences:
                raise
            print(f"cluster: again, a home did not answer: {failure}", flush=True)


def count_silences(site):
    return sum(node.log.read_text().count("the home of accounts does not answer") for node in site.nodes)


def check_user_sessions(site):
    """A user account has as many sessions as one node would allow, whatever nodes they are on."""
    with_homes_that_answer(user_sessions, site)


def user_sessions(site, number):
    token = new_account(site.nodes[0], f"crowd-{number}")
    clients = identify_everywhere(site, token, USER_SESSIONS_MAX)
    ready = [client for client in clients if client.result == READY]
    expect("results", {client.result for client in clients} <= {READY, TOO_MANY_SESSIONS}, True)
    if not 0 < len(ready) <= USER_SESSIONS_MAX:
        raise Failure(f"an account got {len(ready)} sessions at three nodes; {USER_SESSIONS_MAX} are allowed")
    # IDENTIFYs that race may be refused although one of them would fit: the rest of the allowance is there soon.
    while len(ready) < USER_SESSIONS_MAX:
        ready.append(identify_until_ready(site, site.nodes[len(ready) % 3], token))
    for node in site.nodes:
        expect(f"a session too many at {node.name}", OneIdentify(node, token, site.patience).result, TOO_MANY_SESSIONS)
    # One ends: another node has room for one.
    ended = ready.pop()
    ended.close()
    ready.append(identify_until_ready(site, next(node for node in site.nodes if node is not ended.node), token))
    for node in site.nodes:
        expect(f"a session too many at {node.name}", OneIdentify(node, token, site.patience).result, TOO_MANY_SESSIONS)
    for client in ready:
        client.close()


def check_bot(site):
    """A shard identifies once per interval at all nodes, and every node counts the bot's IDENTIFYs of today."""
    with_homes_that_answer(bot_identifies, site)


def bot_identifies(site, number):
    token = new_account(site.nodes[0], f"sharded-{number}", bot=True, application_flags=BOT_FLAGS)
    before = [starts(node, token)["remaining"] for node in site.nodes]
    clients = identify_everywhere(site, token, 2, shard=[1, 4])
    results = sorted(str(client.result) for client in clients)
    expect("one shard at three nodes", results, sorted([READY] + [str(INVALID_SESSION)] * (len(clients) - 1)))
    # A node that refuses an IDENTIFY may have reported it before: a tenth of a second later it reports what counts.
    expected = [remaining - 1 for remaining in before]
    deadline = time.monotonic() + COUNTS_SETTLE_SECONDS
    while (after := [starts(node, token)["remaining"] for node in site.nodes]) != expected:
        if time.monotonic() > deadline:
            expect("IDENTIFYs of the day", after, expected)
        time.sleep(0.05)
    for client in clients:
        if client.result == READY:
            client.close()


def starts(node, token):
    return node.must("GET", "/api/v10/gateway/bot", authorization=token)["session_start_limit"]


def check_idempotency(site, community):
    """An event with one key, sent to three nodes at once, is executed once."""
    client = Client(site.nodes[1], community.tokens[0], site.patience)
    client.wait("GUILD_CREATE", lambda name, _: name == "GUILD_CREATE")

    def publish(node, key, text):
        event = {"t": "KEY_CHECK", "d": {"text": text}, "audience": {"guild": community.guild_id}, "key": key}
        return node.call("POST", "/v1/publish", event)

    for n in range(4):
        with concurrent.futures.ThreadPoolExecutor(len(site.nodes)) as pool:
            answers = list(pool.map(lambda node, n=n: publish(node, f"key-{n}", f"event {n}"), site.nodes))
        expect("answers", [status for status, _ in answers], [200] * len(site.nodes))
        expect("executions", [answer["repeated"] for _, answer in answers].count(False), 1)
        expect("a repetition", publish(site.nodes[n % 3], f"key-{n}", f"event {n}")[1]["repeated"], True)
        expect("another event under the key", publish(site.nodes[n % 3], f"key-{n}", "another")[0], 409)
    publish(site.nodes[0], "last", "last")
    client.wait("the last event", lambda name, d: name == "KEY_CHECK" and d["text"] == "last")
    texts = [d["text"] for name, d in client.events if name == "KEY_CHECK"]
    expect("events", sorted(texts), sorted([f"event {n}" for n in range(4)] + ["last"]))
    client.close()


def check_results(site, community):
    """The result of an event counts the sessions of all nodes, at whichever node it is published, without a wait."""
    # A bot gets a GUILD_CREATE for each guild; a user account may have the guild in READY.
    token = new_account(site.nodes[0], "counted", bot=True, application_flags=BOT_FLAGS)
    site.nodes[0].must("PUT", f"/v1/guilds/{community.guild_id}/members/ext:counted", {})
    clients = [Client(node, token, site.patience) for node in site.nodes]
    for client in clients:
        client.wait("GUILD_CREATE", lambda name, _: name == "GUILD_CREATE")
    to_account = {"users": ["ext:counted"]}
    for audience in [to_account, {"guild": community.guild_id, **to_account}]:
        for node in site.nodes:
            event = {"t": "COUNT_CHECK", "d": {}, "audience": audience}
            answer = node.must("POST", "/v1/publish", event)
            expect(f"sessions that got an event of {node.name}", (answer["reached"], answer["complete"]), (3, True))
    for client in clients:
        client.close()


def check_limits(site, community):
    check_user_sessions(site)
    check_bot(site)
    check_idempotency(site, community)
    check_results(site, community)
