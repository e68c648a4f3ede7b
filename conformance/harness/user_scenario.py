"""User scenario: what a library for user accounts goes through, and what must come of it.

Owns        the order of things: log in, look at the whole guild, follow its changes, be cut, look away and back, leave.
Invariants  U1 whenever things have come to rest, the library's caches hold what the server holds (`agreement`).
            U2 while passive nothing comes that passive sessions are spared, and everything that they are not.
            U3 a switch to passive or back loses nothing and doubles nothing: messages come up to one, or from one on.
            S1 to S5 of the scenario of the bots, for the account of the demo's user.
Not here    what the server's state is: `guild_state`. Presences and voice of others: `peer`.
Spec        docs/protocol/reference.md §8.
"""
import contextlib
import time

from .agreement import differences
from .failure import Failure
from .guild_state import GuildState
from .peer import Peer
from .rest import Rest
from .scenario import BEFORE, Scenario
from .tap import CUTS, RESET

# Ordinary members whose accounts the suite uses.
PEERS = 3
# Subscriptions use blocks like official clients, with this many per channel at once.
RANGES_MAX = 5
BLOCK = 100
POLL_SECONDS = 0.2
DIFFERENCES_SHOWN = 5
# Members that are renamed at once.
BURST = 30
RECENT = 50

# Passive sessions do not receive these for others.
SPARED = (
    "MESSAGE_UPDATE",
    "MESSAGE_DELETE",
    "MESSAGE_REACTION_ADD",
    "TYPING_START",
    "PRESENCE_UPDATE",
    "VOICE_STATE_UPDATE",
    "GUILD_MEMBER_UPDATE",
    "GUILD_MEMBER_LIST_UPDATE",
)

VOICE_TYPES = (2, 13)


class UserScenario(Scenario):
    """One run of one mode of a library for user accounts."""

    def __init__(self, mode, node, tokens, tap, client, patience):
        super().__init__(mode, node, tokens, tap, client, patience)
        self._port = node.port
        self._bot_token = node.demo["bot_token"]
        self._user_token = node.demo["user_token"]
        self._second_channel_id = node.demo["channel_ids"][1]
        self._tokens = tokens
        self._peers = contextlib.ExitStack()
        self._witness = None
        self._states = 0
        self._fences = 0
        self._followed = set()
        # Channels whose lists are in view.
        self._watched = set()
        self._is_active = False
        # Nothing must come of these messages.
        self._spared = set()

    @staticmethod
    def prepare(node, patience):
        """Tokens of a few ordinary members who are offline."""
        guild_id = node.demo["guild_id"]
        bot = Rest(node.demo["api_base"], f"Bot {node.demo['bot_token']}", patience)
        with contextlib.closing(bot), Peer(node.port, node.demo["bot_token"], patience) as witness:
            witness.wait_guild(guild_id)
            state = GuildState.read(bot, guild_id)
            ordinary = [
                user_id
                for user_id, member in sorted(state.members.items())
                if not member["roles"] and user_id not in witness.presences and user_id != state.guild["owner_id"]
            ]
        return node.mint_user_tokens(ordinary[:PEERS])

    def run(self):
        """Runs all steps; raises a Failure at the first fault."""
        with contextlib.closing(self._own), contextlib.closing(self._other), self._peers:
            self._witness = self._connect(self._bot_token)
            self._log_in()
            self._is_active = self._mode.subscribes
            if not self._is_active:
                self._while_passive()
                self._switch("subscribe")
            self._scroll()
            self._ask_members()
            self._follow_changes()
            self._post(BEFORE)
            self._wait_posted()
            self._move_stream()
            self._own_message()
            self._other_events()
            for kind in CUTS:
                self._survive(kind)
                self._agree(f"after cut {self._cuts} ({kind})")
            self._watch({})
            self._switch("unsubscribe")
            self._while_passive()
            self._survive_passive()
            self._switch("subscribe")
            self._scroll()
            self._read_history()
            self._leave()
            self._judge_messages()
            self._judge_wire()
            self._judge_spared()

    # Tools

    def _connect(self, token):
        """A connection that ends with the run, or before."""
        peer = self._peers.enter_context(Peer(self._port, token, self._patience))
        peer.wait_guild(self._guild_id)
        return peer

    def _state(self):
        self._states += 1
        self._client.send("state", guild_id=self._guild_id, number=self._states)
        return self._client.wait_for("the library's state", "state", lambda event: event["number"] == self._states)

    def _server(self):
        return GuildState.read(self._other, self._guild_id)

    def _agree(self, when):
        """U1: waits until the caches hold what the server holds."""
        deadline = time.monotonic() + self._patience.next_wait()
        while True:
            found = differences(
                self._state(),
                self._server(),
                self._own_id,
                dict(self._witness.presences),
                dict(self._witness.voice),
                is_active=self._is_active,
                watched=self._watched,
                followed=self._followed,
            )
            if not found:
                return
            if time.monotonic() > deadline:
                shown = "; ".join(found[:DIFFERENCES_SHOWN])
                raise Failure(f"{when}, caches and server differ in {len(found)} places: {shown}")
            time.sleep(POLL_SECONDS)

    def _fence(self):
        """Waits until the server has taken everything the client has sent."""
        self._fences += 1
        username = self._own.get("/users/@me")["username"]
        self._client.send("members", guild_id=self._guild_id, how="query", query=username, limit=5)
        found = self._client.wait_for(
            "the answer to a query", "members", lambda event: event["how"] == "query", count=self._fences
        )
        if self._own_id not in found["ids"]:
            raise Failure(f"a query for {username} finds {found['ids']}")

    def _watch(self, ranges):
        """Looks at ranges of rows by channel."""
        watched = len(self._client.all("watching"))
        self._client.send("watch", guild_id=self._guild_id, ranges=ranges)
        self._client.wait_for("the library to request rows", "watching", count=watched + 1)
        self._watched = set(ranges)

    def _say(self, channel_id, content, account=None):
        message = (account or self._other).post(f"/channels/{channel_id}/messages", {"content": content})
        return message["id"]

    def _seen(self, message_id):
        return any(event["id"] == message_id for event in self._client.all("message"))

    def _wait_seen(self, message_id, what):
        self._client.wait_for(what, "message", lambda event: event["id"] == message_id)

    def _dispatches(self, name):
        return sum(event["t"] == name for event in self._client.all("dispatch"))

    def _member_path(self, user_id, *rest):
        return "/".join([f"/guilds/{self._guild_id}/members/{user_id}", *rest])

    # Looking

    def _log_in(self):
        super()._log_in()
        (guild,) = [event for event in self._client.all("guild") if event["id"] == self._guild_id]
        # A library that subscribes also reads the whole list, by way of the member list, if offline members are in it.
        if self._mode.subscribes and not guild["chunked"]:
            raise Failure(f"the library has not found all members: {guild}")

    def _scroll(self):
        """The whole member list, block by block, as a scrolling user reads it."""
        _, rows = self._server().member_list(self._channel_id, dict(self._witness.presences))
        for first in range(0, len(rows), BLOCK):
            blocks = [[0, BLOCK - 1]] + ([[first, first + BLOCK - 1]] if first else [])
            self._watch({self._channel_id: blocks})
            self._agree(f"with rows from {first} on in view")

    def _ask_members(self):
        """The library's own requests for members."""
        server = self._server()
        _, rows = server.member_list(self._channel_id, dict(self._witness.presences))
        listed = {row[1] for row in rows if row[0] == "member"}
        self._watch({})
        self._expect_members("scrape", listed)
        newest = sorted(server.members.values(), key=lambda member: member["joined_at"], reverse=True)
        self._expect_members("recent", {member["user"]["id"] for member in newest[:RECENT]}, limit=RECENT)
        self._agree("after the requests for members")

    def _expect_members(self, how, ids, **arguments):
        asked = [event for event in self._client.all("members") if event["how"] == how]
        self._client.send("members", guild_id=self._guild_id, how=how, **arguments)
        found = self._client.wait_for(
            f"members by {how}", "members", lambda event: event["how"] == how, count=len(asked) + 1
        )
        if set(found["ids"]) != ids:
            missing, wrong = len(ids - set(found["ids"])), len(set(found["ids"]) - ids)
            raise Failure(f"members by {how}: {missing} of {len(ids)} are missing, {wrong} should not be there")

    # Changes while active

    def _follow_changes(self):
        self._watch({self._channel_id: [[0, BLOCK - 1], [BLOCK, 2 * BLOCK - 1]]})
        self._agree("with two blocks in view")
        self._follow_members()
        self._follow_presence()
        self._follow_own_presence()
        self._follow_roles()
        self._follow_lists()
        self._follow_voice()

    def _listed(self):
        """Ordinary members in view, from the top."""
        server = self._server()
        _, rows = server.member_list(self._channel_id, dict(self._witness.presences))
        known = {self._own_id, self._witness.user_id, server.guild["owner_id"], *self._tokens}
        return [row[1] for row in rows[: 2 * BLOCK] if row[0] == "member" and row[1] not in known]

    def _follow_members(self):
        listed = self._listed()
        self._other.patch(self._member_path(listed[5]), {"nick": "Aaaaa the first"})
        self._agree("after a member was renamed to the top")
        self._other.patch(self._member_path(listed[5]), {"nick": "zzzzz the last"})
        self._agree("after a member was renamed to the end")
        for number, user_id in enumerate(listed[10 : 10 + BURST]):
            self._other.patch(self._member_path(user_id), {"nick": f"Member {number * 7919 % 100}"})
        self._agree(f"after {BURST} members were renamed")
        self._other.delete(self._member_path(listed[-1]))
        self._agree("after a member was removed")

    def _follow_presence(self):
        user_id, *others = self._tokens
        self._client.send("watch_members", guild_id=self._guild_id, user_ids=[user_id])
        self._client.wait_for("the library to follow a member", "watching_members")
        self._followed.add(user_id)
        peer = self._connect(self._tokens[user_id])
        self._witness.wait("a peer online", lambda: user_id in self._witness.presences)
        self._agree("after a member came online")
        # No more than five in twenty seconds are taken.
        for status, games in (("idle", ()), ("dnd", ("chess",)), ("online", ("chess", "go"))):
            peer.show(status, *games)
            self._wait_presence(user_id, (status, sorted(games)))
        peer.show("invisible")
        self._wait_presence(user_id, None)
        peer.show("online")
        self._wait_presence(user_id, ("online", []))
        companions = [self._connect(self._tokens[each]) for each in others]
        self._witness.wait("all peers", lambda: self._witness.presences.keys() >= self._tokens.keys())
        self._agree("after more members came online")
        for each in (peer, *companions):
            each.close()
        self._witness.wait("no peers", lambda: not self._witness.presences.keys() & self._tokens.keys())
        self._agree("after they went offline")

    def _wait_presence(self, user_id, wanted):
        self._witness.wait(f"a member to show {wanted}", lambda: self._witness.presences.get(user_id) == wanted)
        self._agree(f"after a member showed {wanted}")

    def _follow_own_presence(self):
        """Another device of the same account: others see both as one, and rows show what others see."""
        device = self._connect(self._user_token)
        device.show("dnd")
        self._wait_presence(self._own_id, ("dnd", []))
        device.close()
        self._wait_presence(self._own_id, ("online", []))

    def _follow_roles(self):
        hoisted = [role for role in self._server().roles.values() if role["hoist"]]
        low = min(hoisted, key=lambda role: role["position"])
        user_id = self._listed()[-1]
        self._other.put(self._member_path(user_id, "roles", low["id"]))
        self._agree("after a member got a hoisted role")
        path = f"/guilds/{self._guild_id}/roles/{low['id']}"
        self._other.patch(path, {"hoist": False})
        self._agree("after a role was no longer hoisted")
        self._other.patch(path, {"hoist": True, "name": "Renamed"})
        self._agree("after it was hoisted again")
        self._other.delete(self._member_path(user_id, "roles", low["id"]))
        self._agree("after the member lost it")

    def _follow_lists(self):
        """Another list by another visibility, and a channel whose list becomes another one."""
        server = self._server()
        moderator = next(role["id"] for role in server.roles.values() if role["name"] == "Moderator")
        muted = next(role["id"] for role in server.roles.values() if role["name"] == "Muted")
        staff = next(channel["id"] for channel in server.channels.values() if channel["name"] == "staff")
        self._other.put(self._member_path(self._own_id, "roles", moderator))
        self._agree("after becoming a moderator")
        self._watch({self._channel_id: [[0, BLOCK - 1]], staff: [[0, BLOCK - 1]]})
        self._agree("with the list of a private channel in view")
        self._expect_members("chunk", set(server.members))
        self._watch({self._channel_id: [[0, BLOCK - 1]]})
        self._other.delete(self._member_path(self._own_id, "roles", moderator))
        self._agree("after losing the moderator role")
        self._watch({self._channel_id: [[0, BLOCK - 1]], self._second_channel_id: [[0, BLOCK - 1]]})
        overwrite = f"/channels/{self._second_channel_id}/permissions/{muted}"
        self._other.put(overwrite, {"type": 0, "allow": "0", "deny": str(1 << 10)})
        self._agree("after a channel got another list")
        self._other.delete(overwrite)
        self._agree("after it got the old one back")
        self._watch({self._channel_id: [[0, BLOCK - 1], [BLOCK, 2 * BLOCK - 1]]})

    def _voice_rooms(self):
        channels = self._server().channels.values()
        return [channel["id"] for channel in channels if channel["type"] in VOICE_TYPES][:2]

    def _follow_voice(self):
        user_id = next(iter(self._tokens))
        first, second = self._voice_rooms()
        peer = self._connect(self._tokens[user_id])
        self._move(peer, user_id, first)
        self._move(peer, user_id, second)
        self._client.send("voice", guild_id=self._guild_id, channel_id=second)
        self._witness.wait("the library in voice", lambda: self._witness.voice.get(self._own_id) == second)
        self._agree("after joining voice")
        self._other.patch(self._member_path(user_id), {"channel_id": first})
        self._witness.wait("a moved member", lambda: self._witness.voice.get(user_id) == first)
        self._agree("after a moderator moved a member")
        self._client.send("voice", guild_id=self._guild_id)
        self._witness.wait("the library out of voice", lambda: self._own_id not in self._witness.voice)
        peer.close()
        self._witness.wait("the peer out of voice", lambda: user_id not in self._witness.voice)
        self._agree("after both left voice")

    def _move(self, peer, user_id, channel_id):
        peer.join_voice(self._guild_id, channel_id)
        self._witness.wait("a peer in voice", lambda: self._witness.voice.get(user_id) == channel_id)
        self._agree("after a member went to a voice channel")

    def _change_while_out(self):
        if self._is_active:
            self._other.patch(self._member_path(self._listed()[20]), {"nick": f"Renamed while out {self._cuts}"})

    # Passive

    def _switch(self, command):
        """U3: messages before, during and after the switch come up to one, or from one on."""
        done = "subscribed" if command == "subscribe" else "unsubscribed"
        count = len(self._client.all(done))
        ids = [self._say(self._channel_id, f"before {command}") for _ in range(4)]
        self._client.send(command, guild_id=self._guild_id)
        ids += [self._say(self._channel_id, f"during {command}") for _ in range(8)]
        self._client.wait_for(f"the library to {command}", done, count=count + 1)
        self._fence()
        after = [self._say(self._channel_id, f"after {command}") for _ in range(4)]
        self._is_active = command == "subscribe"
        end = self._say(self._channel_id, f"<@{self._own_id}>, this is the end of the switch")
        self._wait_seen(end, "the message at the end of a switch")
        seen = [self._seen(message_id) for message_id in ids + after]
        if seen != sorted(seen, reverse=not self._is_active):
            raise Failure(f"{command}: messages came with a gap: {seen}")
        if any(self._seen(message_id) != self._is_active for message_id in after):
            raise Failure(f"{command}: messages after it came like this: {seen}")
        if self._is_active:
            # Members that it knew may have changed unseen, and a new name moves them: it looks at all that are listed
            # first, as clients do that open a guild.
            self._watch({self._channel_id: [[first, first + BLOCK - 1] for first in range(0, RANGES_MAX * BLOCK, BLOCK)]})
        self._agree(f"after {command}")

    def _while_passive(self):
        """U2: events that passive sessions do and do not receive; channels and voice stay correct."""
        before = {name: self._dispatches(name) for name in SPARED}
        updates = self._dispatches("PASSIVE_UPDATE_V2")
        mentions = sum(self._state()["mentions"].values())
        self._talk_unheard()
        self._agree("after talk that a passive session does not hear")
        self._voice_unseen()
        if self._dispatches("PASSIVE_UPDATE_V2") == updates:
            raise Failure("the caches agree, and no PASSIVE_UPDATE_V2 has come")
        self._structure_changes()
        self._other.patch(self._member_path(self._listed()[30]), {"nick": "Renamed unseen"})
        for text in (f"<@{self._own_id}>, look", "@everyone, look", f"<@&{self._own_role()}>, look"):
            self._wait_seen(self._say(self._second_channel_id, text), f"the passive session's mention: {text}")
        if (counted := sum(self._state()["mentions"].values())) != mentions + 3:
            raise Failure(f"the library counts {counted - mentions} mentions instead of 3")
        self._wait_seen(self._say(self._channel_id, "from another device", self._own), "the account's own message")
        for name in SPARED:
            if (more := self._dispatches(name) - before[name]) > 0:
                raise Failure(f"{more} {name} came to a passive session")
        self._judge_spared()
        self._agree("at the end of the passive time")

    def _own_role(self):
        return self._server().members[self._own_id]["roles"][0]

    def _talk_unheard(self):
        for number in range(6):
            channel_id = (self._channel_id, self._second_channel_id)[number % 2]
            message_id = self._say(channel_id, f"passive sessions do not hear this {number}")
            self._spared.add(message_id)
        self._other.post(f"/channels/{channel_id}/typing")
        self._other.patch(f"/channels/{channel_id}/messages/{message_id}", {"content": "edited"})
        # Not the last one: the last message of a channel is then up to the server.
        deleted = self._say(channel_id, "to be deleted")
        self._spared.update((deleted, last := self._say(channel_id, "the last of it")))
        self._other.delete(f"/channels/{channel_id}/messages/{deleted}")
        return last

    def _voice_unseen(self):
        user_id = next(iter(self._tokens))
        peer = self._connect(self._tokens[user_id])
        for room in self._voice_rooms():
            self._move(peer, user_id, room)
        peer.close()
        self._witness.wait("the peer out of voice", lambda: user_id not in self._witness.voice)
        self._agree("after a member left voice unseen")

    def _structure_changes(self):
        """Changes of roles and channels arrive at once, passive or not."""
        guild = f"/guilds/{self._guild_id}"
        role = self._other.post(f"{guild}/roles", {"name": "While passive", "hoist": True})
        channel = self._other.post(f"{guild}/channels", {"name": "while-passive", "type": 0})
        self._agree("after a role and a channel were made")
        self._other.patch(f"/channels/{channel['id']}", {"name": "renamed"})
        self._agree("after a channel was renamed")
        self._other.delete(f"/channels/{channel['id']}")
        self._other.delete(f"{guild}/roles/{role['id']}")
        self._agree("after a role and a channel were deleted")

    def _survive_passive(self):
        """A cut while passive: the replay contains passive updates."""
        self._client.explain_cut()
        self._tap.arm_cut(RESET)
        self._cuts += 1
        self._talk_unheard()
        if not self._tap.wait_cut(self._patience.next_wait()):
            raise Failure("nothing came to the passive session that could be cut")
        mention = self._say(self._channel_id, f"<@{self._own_id}>, come back")
        self._talk_unheard()
        self._tap.release()
        self._client.wait_for(f"RESUMED after cut {self._cuts} (passive)", "resumed", count=self._cuts)
        self._wait_seen(mention, "the mention while out")
        self._agree("after the passive session's cut")
        self._judge_spared()

    def _judge_spared(self):
        """U2: events that a passive session does not receive never arrive later either."""
        if came := [message_id for message_id in self._spared if self._seen(message_id)]:
            raise Failure(f"messages came that a passive session is spared: {came}")
