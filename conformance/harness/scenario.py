"""Scenario: what every library goes through in every mode, and what must come of it.

Owns        the order of things: log in, talk, be cut three times while others talk on, leave.
Invariants  S1 every numbered message is seen once, in order (if the library keeps it), with its text.
            S2 one READY, and one RESUMED for each cut. S3 the wire shows what the mode claims.
            S4 the library complains of nothing that a cut does not explain.
            S5 sequence numbers run from 1 through all RESUMEs, without a gap but for superseded presences in a replay (`sequence`).
            S6 a library reads on when its stream leaves its context in the middle (ADR 40).
Not here    anything of one library: those differences end at the line protocol.
Spec        docs/protocol/reference.md §1.
"""
import urllib.parse

from .client import gap_of
from .failure import Failure
from .interactions import Interactions, Invoker
from .rest import Rest
from .sequence import SequenceJudge
from .tap import CUTS, HALF_OPEN

IDENTIFY, RESUME = 2, 6

THUMBS_UP = "\N{THUMBS UP SIGN}"

# Texts that an encoding or a compression may get wrong.
TEXTS = (
    "plain",
    "quotes \" ' ` and \\ and / and \t tab",
    "two\nlines",
    "umlauts äöü, 漢字かな, עברית, क्षि",
    f"beyond 16 bits {THUMBS_UP} \N{FAMILY}\N{ZERO WIDTH JOINER}\N{GIRL} \N{MUSICAL SYMBOL G CLEF}",
    "line separator \u2028 and <&> and {\"op\":9,\"t\":\"READY\",\"s\":1}",
    "long " + "lorem ipsum " * 150 + "end",
    "incompressible " + "".join(chr(0x4E00 + (i * i * 7919) % 20000) for i in range(900)),
)

# Numbered messages before the first cut, while a client is disconnected, and after it may reconnect.
BEFORE, WHILE_OUT, AFTER = 8, 4, 3

# Messages until the server has read its settings again, at most.
MOVE_ATTEMPTS = 50
MOVES = "guildhall_context_moves_total"

HISTORY_PAGE = 100

# Of the guild, for libraries that read one.
VANITY_CODE = "conformance"


class Scenario:
    """One run of one mode."""

    def __init__(self, mode, node, _prepared, tap, client, patience):
        demo = node.demo
        self._mode = mode
        self._node = node
        self._tap = tap
        self._client = client
        self._patience = patience
        self._guild_id = demo["guild_id"]
        self._channel_id = demo["channel_ids"][0]
        bot = Rest(demo["api_base"], f"Bot {demo['bot_token']}", patience)
        user = Rest(demo["api_base"], demo["user_token"], patience)
        # The account of the library, and the one that the suite acts as.
        self._own, self._other = (user, bot) if mode.is_user else (bot, user)
        self._own_id = None
        self._posted = []
        self._history = None
        self._cuts = 0

    @staticmethod
    def prepare(_node, _patience):
        """Work before the client starts; its result goes to the scenario."""

    @property
    def messages(self):
        """How many messages the client saw, simulated members' included."""
        return len(self._client.all("message"))

    @property
    def resumes(self):
        return len(self._client.all("resumed"))

    def run(self):
        """Runs all steps; raises a Failure at the first fault."""
        try:
            self._log_in()
            self._members()
            self._post(BEFORE)
            self._wait_posted()
            self._move_stream()
            self._own_message()
            self._own_file()
            self._other_events()
            self._interactions()
            self._community()
            for kind in CUTS:
                self._survive(kind)
            self._read_history()
            self._leave()
            self._judge_messages()
            self._judge_wire()
        finally:
            self._own.close()
            self._other.close()

    def _log_in(self):
        client = self._client
        client.wait_for("the client to start", "start")
        ready = client.wait_for("READY", "ready")
        self._own_id = self._own.get("/users/@me")["id"]
        if ready["user_id"] != self._own_id:
            raise Failure(f"READY is for user {ready['user_id']}, the token belongs to {self._own_id}")
        if ready["guilds"] < 1:
            raise Failure("READY names no guild")
        guild = client.wait_for("GUILD_CREATE", "guild", lambda event: event["id"] == self._guild_id)
        client.wait_for("the library to be ready", "settled")
        wanted = self._other.get(f"/guilds/{self._guild_id}")
        for key, sane in (
            ("name", guild["name"] == wanted["name"] and guild["name"]),
            ("channels", guild["channels"] > 0),
            ("roles", guild["roles"] == len(wanted["roles"])),
            ("member_count", (guild["member_count"] or 0) > 1),
            ("own_member", guild["own_member"]),
        ):
            if not sane:
                raise Failure(f"GUILD_CREATE: {key} is wrong: {guild}")

    def _members(self):
        """The whole member list, by op 8: more than one chunk."""
        (guild,) = [event for event in self._client.all("guild") if event["id"] == self._guild_id]
        self._client.send("members", guild_id=self._guild_id)
        members = self._client.wait_for("all members", "members")
        if members["count"] != guild["member_count"]:
            raise Failure(f"{members['count']} members came, GUILD_CREATE counts {guild['member_count']}")

    def _path(self, *rest):
        return "/".join([f"/channels/{self._channel_id}", *rest])

    def _post(self, count):
        """Posts numbered messages, alternately as the library's account and as another."""
        for _ in range(count):
            number = len(self._posted)
            content = f"conformance {number}: {TEXTS[number % len(TEXTS)]}"
            account = self._own if number % 2 else self._other
            message = account.post(self._path("messages"), {"content": content})
            if message["content"] != content:
                raise Failure(f"the REST answer to message {number} has another content")
            self._posted.append(message)

    def _wait_posted(self):
        last = self._posted[-1]
        self._client.wait_for(
            f"message {len(self._posted) - 1}", "message", lambda event: event["id"] == last["id"]
        )

    def _move_stream(self):
        """The server continues a compressed stream by shared-match, in the middle; later streams begin as before."""
        if not self._mode.is_stream:
            return
        self._node.change_settings("[codec]\ncontexts_cpu_percent = 0\n")
        for _ in range(MOVE_ATTEMPTS):
            self._post(1)
            self._wait_posted()
            if self._node.metric(MOVES):
                break
        else:
            raise Failure(f"the server still writes the stream by a context, {MOVE_ATTEMPTS} messages after it was not to")
        self._node.change_settings("")

    def _own_message(self):
        """The library's own REST layer, and the event that answers it."""
        content = f"conformance, from the client {THUMBS_UP}"
        self._own.wait_for_room("POST", self._path("messages"))
        self._client.send("send", channel_id=self._channel_id, content=content)
        sent = self._client.wait_for("the client's own send", "sent")
        seen = self._client.wait_for("the client's own message", "message", lambda event: event["id"] == sent["id"])
        if seen["content"] != content or seen["author_id"] != self._own_id:
            raise Failure(f"the client's own message came back as {seen}")

    def _own_file(self):
        """A file that the library sends and downloads by itself, if it reports that it can."""
        (start,) = self._client.all("start")
        if not start.get("files"):
            return
        wanted = {"name": "from_the_client.bin", "size": 300_000, "description": "from the client", "same": True}
        self._client.send("file", channel_id=self._channel_id, name=wanted["name"], size=wanted["size"])
        sent = self._client.wait_for("the client's own file", "file")
        if {key: sent[key] for key in wanted} != wanted:
            raise Failure(f"the client's own file came back as {sent}")
        self._client.wait_for("the message with the file", "message", lambda event: event["id"] == sent["id"])

    def _other_events(self):
        """Typing, a reaction, an edit and a deletion by another account."""
        client, user_id = self._client, self._other.get("/users/@me")["id"]
        self._other.post(self._path("typing"))
        client.wait_for(
            "TYPING_START",
            "typing",
            lambda event: event["user_id"] == user_id and event["channel_id"] == self._channel_id,
        )
        message = self._other.post(self._path("messages"), {"content": "to be edited"})
        message_id = message["id"]
        client.wait_for("the message to edit", "message", lambda event: event["id"] == message_id)
        emoji = urllib.parse.quote(THUMBS_UP)
        self._other.put(self._path("messages", message_id, "reactions", emoji, "@me"))
        wanted = {"ev": "reaction", "message_id": message_id, "user_id": user_id, "emoji": THUMBS_UP}
        client.wait_for("MESSAGE_REACTION_ADD", "reaction", lambda event: event == wanted)
        self._edit(message_id, "edited")
        self._wait_edit(message_id, "edited")
        self._other.delete(self._path("messages", message_id))
        client.wait_for("MESSAGE_DELETE", "delete", lambda event: event["id"] == message_id)

    def _interactions(self):
        """Commands, components and modals, if the client reports that it has them."""
        (start,) = self._client.all("start")
        if not start.get("interactions"):
            return
        demo = self._node.demo
        with Invoker(self._node.port, demo["user_token"], self._patience) as invoker:
            invoker.wait_guild(self._guild_id)
            place = (self._guild_id, self._channel_id, self._own_id)
            Interactions(self._client, invoker, self._other, *place).run()

    def _community(self):
        """Widget, welcome screen, vanity URL, onboarding and template, if the client reports that it has them."""
        (start,) = self._client.all("start")
        if not start.get("community"):
            return
        guild = self._other.get(f"/guilds/{self._guild_id}")
        # Not every library can set a code.
        self._own.patch(f"/guilds/{self._guild_id}/vanity-url", {"code": VANITY_CODE})
        place = {"guild_id": self._guild_id, "channel_id": self._channel_id}
        self._client.send("community", code=VANITY_CODE, **place)
        wanted = {
            "widget": guild["name"],
            "welcome": "here",
            "vanity": VANITY_CODE,
            "invite": self._guild_id,
            "template": "ours",
            "onboarding": "yes",
        }
        seen = self._client.wait_for("the settings of the guild", "community")
        wrong = {key: value for key, value in seen.items() if key in wanted and value != wanted[key]}
        if wrong or len(wanted.keys() & seen.keys()) < len(wanted) - 1:
            raise Failure(f"the settings of the guild came back as {seen}")

    def _edit(self, message_id, content):
        self._other.patch(self._path("messages", message_id), {"content": content})

    def _wait_edit(self, message_id, content):
        wanted = {"ev": "edit", "id": message_id, "content": content}
        self._client.wait_for("MESSAGE_UPDATE", "edit", lambda event: event == wanted)

    def _survive(self, kind):
        """Cuts the connection within a frame; messages continue, then the client may reconnect."""
        self._client.explain_cut()
        self._tap.arm_cut(kind)
        self._cuts += 1
        # The first of these is what gets cut, unless a simulated member was quicker.
        self._post(WHILE_OUT)
        if not self._tap.wait_cut(self._patience.next_wait()):
            raise Failure("nothing came from the server that could be cut")
        # Not a numbered one: a library may show a message as it is by now, not as it was when it came.
        edited_id = self._other.post(self._path("messages"), {"content": "to be edited while out"})["id"]
        self._edit(edited_id, f"edited while out, {kind}")
        self._change_while_out()
        self._tap.release()
        self._post(AFTER)
        self._client.wait_for(f"RESUMED after cut {self._cuts} ({kind})", "resumed", count=self._cuts)
        self._wait_posted()
        self._wait_edit(edited_id, f"edited while out, {kind}")

    def _change_while_out(self):
        """What else happens while the client is out."""

    def _read_history(self):
        """The channel from the first to the last numbered message, and then a fence.

        Simulated members take messages back at any time. All that the history lacks for that reason was deleted before
        the fence was posted, so the client has seen it go once it has seen the fence.
        """
        first, last = self._range()
        kept, after = set(), first - 1
        while after < last:
            page = self._other.get(self._path(f"messages?limit={HISTORY_PAGE}&after={after}"))
            kept |= {message["id"] for message in page if int(message["id"]) <= last}
            after = max((int(message["id"]) for message in page), default=last)
        self._history = kept
        fence = self._other.post(self._path("messages"), {"content": "fence: the history was read"})["id"]
        self._client.wait_for("the message after the history", "message", lambda event: event["id"] == fence)

    def _range(self):
        """Ids of the first and the last numbered message."""
        return int(self._posted[0]["id"]), int(self._posted[-1]["id"])

    def _leave(self):
        self._client.send("quit")
        self._client.wait_exit()

    def _judge_messages(self):
        """S1, S2, and the same for all other messages of the channel meanwhile."""
        client = self._client
        if (readies := len(client.all("ready"))) != 1:
            raise Failure(f"{readies} READYs instead of one")
        if self.resumes != self._cuts:
            raise Failure(f"{self.resumes} RESUMEDs for {self._cuts} cuts")
        messages = client.all("message")
        ids = [message["id"] for message in messages]
        doubled = sorted({each for each in ids if ids.count(each) > 1})
        if doubled:
            raise Failure(f"messages came twice: {doubled}")
        numbered_ids = {message["id"] for message in self._posted}
        seen = [fields(message) for message in messages if message["id"] in numbered_ids]
        posted = [
            (message["id"], message["channel_id"], message["author"]["id"], message["content"])
            for message in self._posted
        ]
        if not self._mode.keeps_order:
            seen.sort(key=lambda message: int(message[0]))
        if seen != posted:
            at = next((i for i, (a, b) in enumerate(zip(seen, posted)) if a != b), min(len(seen), len(posted)))
            raise Failure(
                f"numbered messages differ from message {at} on ({len(seen)} seen, {len(posted)} posted): "
                f"{seen[at : at + 1]} instead of {posted[at : at + 1]}"
            )
        self._judge_history(messages)
        self._judge_sequence()

    def _judge_history(self, messages):
        """Between the first and the last numbered message, history and events must hold the same messages.

        All that the history holds was told before. What was told and is not in it, the client saw deleted.
        """
        first, last = self._range()
        deleted = {event["id"] for event in self._client.all("delete")}
        seen = {
            message["id"]
            for message in messages
            if message["channel_id"] == self._channel_id and first <= int(message["id"]) <= last
        }
        lost, unknown = self._history - seen, seen - self._history - deleted
        if lost or unknown:
            raise Failure(f"history and events differ: lost {sorted(lost)}, unknown {sorted(unknown)}")

    def _judge_sequence(self):
        """S5."""
        resumes = [resume["seq"] for link in self._tap.links for resume in link.sent(RESUME)]
        if not self._mode.tells_sequence:
            self._judge_gaps(resumes)
            return
        dispatches = self._client.all("dispatch")
        if not self._mode.keeps_order:
            dispatches.sort(key=lambda event: event["s"])
        judge = SequenceJudge()
        for event in dispatches:
            # The client had exactly that many when it reported it, so the replay follows.
            if resumes and judge.seq == resumes[0]:
                judge.resumes(resumes.pop(0))
            judge.takes(event["s"], event["t"])
        judge.finish()
        if resumes:
            raise Failure(f"RESUMEs from {resumes}, which the client did not have as its last")

    def _judge_gaps(self, resumes):
        """S5 for a library that logs gaps and does not report numbers."""
        events, resumed = self._client.events, 0
        for at, event in enumerate(events):
            resumed += event["ev"] == "resumed"
            if not (gap := gap_of(event)):
                continue
            us, them = gap
            if resumed >= len(resumes) or us < resumes[resumed]:
                raise Failure(f"outside a replay sequence number {them} came after {us}")
            names = [later["t"] for later in events[at:] if later["ev"] == "dispatch"]
            if "RESUMED" not in names or "PRESENCE_UPDATE" not in names[: names.index("RESUMED")]:
                raise Failure(f"a replay leaves out what is between {us} and {them}, with no presence behind it")

    def _judge_wire(self):
        """S3: what the tap saw."""
        links = self._tap.links
        if len(links) != self._cuts + 1:
            raise Failure(f"{len(links)} connections for {self._cuts} cuts")
        session_ids, seqs = set(), []
        for number, link in enumerate(links):
            where = f"connection {number}"
            if link.fault:
                raise Failure(f"{where}: {link.fault}")
            identifies, resumes = link.sent(IDENTIFY), link.sent(RESUME)
            if (len(identifies), len(resumes)) != ((1, 0) if number == 0 else (0, 1)):
                raise Failure(f"{where}: {len(identifies)} IDENTIFYs and {len(resumes)} RESUMEs")
            session_ids |= {resume["session_id"] for resume in resumes}
            seqs += [resume["seq"] for resume in resumes]
            self._judge_mode(where, link)
            # The half-open connection is taken over by the RESUME, and only that may close it.
            if link.server_close is not None and link.cut != HALF_OPEN and link is not links[-1]:
                raise Failure(f"{where}: the server closed it with {link.server_close}")
        if len(session_ids) != 1 or seqs != sorted(seqs):
            raise Failure(f"RESUMEs for sessions {session_ids} from {seqs}")
        if links[-1].client_close not in self._mode.leaving_codes:
            raise Failure(f"the client left with close code {links[-1].client_close}")

    def _judge_mode(self, where, link):
        mode, query = self._mode, link.query
        said = (query.get("encoding", "json"), query.get("compress", "none"))
        wanted = (mode.encoding, mode.compression if mode.is_stream else "none")
        if said != wanted:
            raise Failure(f"{where}: the client requested {said}, the mode is {wanted}")
        if mode.is_stream and link.extensions:
            raise Failure(f"{where}: {link.extensions} was accepted together with {mode.compression}")
        compresses = [identify.get("compress", False) for identify in link.sent(IDENTIFY)]
        texts, binaries = link.text_frames, link.binary_frames
        if mode.compression == "payload":
            # Large payloads are compressed, and READY or GUILD_CREATE is one.
            if compresses and (compresses != [True] or not texts or not binaries):
                raise Failure(f"{where}: compress {compresses}, {texts} text and {binaries} binary frames")
        elif mode.is_stream or mode.encoding == "etf":
            if texts or not binaries:
                raise Failure(f"{where}: {texts} text and {binaries} binary frames")
        elif binaries or not texts or any(compresses):
            raise Failure(f"{where}: compress {compresses}, {texts} text and {binaries} binary frames")


def fields(message):
    """Fields of a message that are compared."""
    return (message["id"], message["channel_id"], message["author_id"], message["content"])
