"""History: what clients saw and what REST acknowledged, and whether the two fit.

Owns        per session and channel the windows in which it had to receive every message; what REST acknowledged; offences.
Doors       `SessionLog` while a session receives; `judge` at the end, with the messages that REST reads back.
Invariants  H1 an acknowledged message is in the history, unaltered. H2 a text is in the history once, however often its
            request was repeated with its nonce. H3 no session sees a message twice, out of its channel's order, or one that is
            not in the history. H4 a session misses no message of a channel between GUILD_CREATE, whose `last_message_id` says
            where it begins, and GUILD_DELETE `unavailable` or the session's end. H5 nobody sees a message of a channel that he
            may not view. H6 an event with an idempotency key reaches a session once.
Limits      eight bytes per message and session.
Not here    connections and decoding: `crowd.py`.
"""
import bisect
import dataclasses
from array import array

# A loss is announced within this time. A session whose node is paused for 20 s hears nothing for as long.
ANNOUNCED_SECONDS = 35
# Messages before and after the place that an offence names.
EXCERPT = 3

LIVE, UNAVAILABLE, ENDED = "live", "unavailable", "ended"


@dataclasses.dataclass
class Offence:
    """One broken promise."""

    kind: str
    place: str
    detail: str
    excerpt: list = dataclasses.field(default_factory=list)
    # Seconds since the run began, and the fault of that time; for offences that are seen while they happen.
    at: float | None = None
    during: str | None = None

    def __str__(self):
        when = f" [{self.at:.1f} s, {self.during}]" if self.at is not None else ""
        lines = [f"{self.kind}: {self.place}: {self.detail}{when}"]
        return "\n".join([*lines, *(f"    {line}" for line in self.excerpt)])


@dataclasses.dataclass
class Window:
    """A time in which a session had to receive every message of a channel."""

    who: str
    channel_id: int
    # Newest message that was there before.
    after: int
    begun_at: float
    ids: array = dataclasses.field(default_factory=lambda: array("Q"))
    end: str = LIVE
    ended_at: float | None = None

    @property
    def last(self):
        return self.ids[-1] if self.ids else self.after


class SessionLog:
    """Events of one session. `views` is the set of channels that its account may view all the time."""

    def __init__(self, who, views, wanders, report):
        self.who = who
        self.account = who.split(" ")[0]
        self._views = views
        # Channels that its account may view at times: (channel, message, time) of what came.
        self._wanders = wanders
        self.wandered = []
        self._report = report
        # Windows by channel, for each guild that is available.
        self._guilds = {}
        self.windows = []
        self.outages = 0
        # Newest message by channel, over all windows.
        self._newest = {}
        self._keys = set()

    def has(self, guild_id):
        """Whether the guild is available to it."""
        return guild_id in self._guilds

    def newest(self, channel_id):
        return self._newest.get(channel_id, 0)

    def available(self, guild_id, newest_by_channel, at):
        """GUILD_CREATE."""
        if guild_id in self._guilds:
            self._report("announced twice", self.who, f"guild {guild_id} is available already")
            self._close(guild_id, UNAVAILABLE, at)
        windows = {}
        for channel_id, after in newest_by_channel.items():
            if channel_id not in self._views:
                continue
            before = self._newest.get(channel_id, 0)
            if after < before:
                detail = f"channel {channel_id}: GUILD_CREATE has {after} as its newest, this session has seen {before}"
                self._report("went back", self.who, detail)
            window = Window(self.who, channel_id, after, at)
            self._newest[channel_id] = max(after, before)
            windows[channel_id] = window
            self.windows.append(window)
        self._guilds[guild_id] = windows

    def unavailable(self, guild_id, at):
        """GUILD_DELETE with `unavailable`."""
        self.outages += 1
        self._close(guild_id, UNAVAILABLE, at)

    def message(self, guild_id, channel_id, message_id, at):
        """MESSAGE_CREATE."""
        if channel_id in self._wanders:
            self.wandered.append((channel_id, message_id, at))
            return
        if channel_id not in self._views:
            self._report("leaked", self.who, f"message {message_id} of channel {channel_id}, which it may not view")
            return
        windows = self._guilds.get(guild_id)
        if windows is None:
            self._report("unannounced", self.who, f"message {message_id} of guild {guild_id}, which is unavailable")
            return
        newest = self._newest.get(channel_id, 0)
        if message_id <= newest:
            what = "twice" if self._has_seen(channel_id, message_id) else "out of order"
            self._report(what, self.who, f"message {message_id} of channel {channel_id} came after {newest}")
            return
        if (window := windows.get(channel_id)) is None:
            self._report("unannounced", self.who, f"message {message_id} of channel {channel_id}, which GUILD_CREATE lacks")
            return
        window.ids.append(message_id)
        self._newest[channel_id] = message_id

    def keyed(self, key):
        """An event that was published with a key."""
        if key in self._keys:
            self._report("key twice", self.who, f"the event with key {key} came twice")
        self._keys.add(key)

    def finish(self, at, end=ENDED):
        """The session has ended, or (`LIVE`) the run has."""
        for guild_id in list(self._guilds):
            self._close(guild_id, end, at)

    def _has_seen(self, channel_id, message_id):
        return any(window.channel_id == channel_id and message_id in window.ids for window in self.windows)

    def _close(self, guild_id, end, at):
        for window in self._guilds.pop(guild_id, {}).values():
            window.end, window.ended_at = end, at


@dataclasses.dataclass
class Told:
    """A message that a writer sent: maybe several times, and with the same nonce each time."""

    channel_id: int
    text: str
    begun_at: float
    acked_at: float | None = None
    message_id: int | None = None


@dataclasses.dataclass
class Denied:
    """A time in which an account certainly could not view a channel."""

    user: str
    channel_id: int
    since: float
    until: float = float("inf")


class Record:
    """Everything of one run. `now` gives the seconds since it began, `during` the fault under way."""

    def __init__(self, now=lambda: 0.0, during=lambda: None):
        self._now, self._during = now, during
        self.told = []
        self.sessions = []
        self.denied = []
        self.offences = []

    def report(self, what, who, detail):
        """An offence that is seen as it happens."""
        self.offences.append(Offence(what, who, detail, at=self._now(), during=self._during()))

    def judge(self, stored):
        """Offences against H1 to H5 that only the end shows. `stored`: (id, text) by channel, ascending."""
        found = [*self.offences]
        ids = {channel_id: array("Q", (message_id for message_id, _ in messages)) for channel_id, messages in stored.items()}
        found += check_acknowledged(self.told, stored)
        found += check_once(stored)
        acked_at = {told.message_id: told.acked_at for told in self.told if told.message_id is not None}
        for session in self.sessions:
            for window in session.windows:
                found += check_window(window, ids.get(window.channel_id, array("Q")), acked_at)
        found += check_denied(self.sessions, self.denied, self.told)
        return found

    def dispatches_checked(self):
        return sum(len(window.ids) for session in self.sessions for window in session.windows)

    def missed(self, stored, since, until):
        """Messages that sessions were not sent and had no right to: they came between two windows of an account's channel,
        the second of which began in this time. A client reads them by REST."""
        ids = {channel_id: array("Q", (message_id for message_id, _ in messages)) for channel_id, messages in stored.items()}
        windows = {}
        for session in self.sessions:
            for window in session.windows:
                windows.setdefault((session.account, window.channel_id), []).append(window)
        count = 0
        for (_, channel_id), of_channel in windows.items():
            for before, window in zip(of_channel, of_channel[1:]):
                if since <= window.begun_at < until:
                    of = ids.get(channel_id, array("Q"))
                    count += max(0, bisect.bisect_right(of, window.after) - bisect.bisect_right(of, before.last))
        return count

    def outages_announced(self):
        """GUILD_DELETEs with `unavailable`, of all sessions."""
        return sum(session.outages for session in self.sessions)


def check_acknowledged(told, stored):
    """H1."""
    texts = {channel_id: dict(messages) for channel_id, messages in stored.items()}
    found = []
    for each in told:
        if each.message_id is None:
            continue
        text = texts.get(each.channel_id, {}).get(each.message_id)
        if text != each.text:
            became = "is gone" if text is None else f"has the text {text!r}"
            near = excerpt(stored.get(each.channel_id, []), each.message_id)
            detail = f"{each.text!r} was acknowledged as {each.message_id} at {each.acked_at:.1f} s and {became}"
            found.append(Offence("lost", f"channel {each.channel_id}", detail, near))
    return found


def check_once(stored):
    """H2."""
    found = []
    for channel_id, messages in stored.items():
        ids = {}
        for message_id, text in messages:
            ids.setdefault(text, []).append(message_id)
        for text, of_text in ids.items():
            if len(of_text) > 1:
                found.append(Offence("done twice", f"channel {channel_id}", f"{text!r} is there as {of_text}"))
    return found


def check_window(window, ids, acked_at):
    """H3 and H4 for one window; `ids` of the channel's history, ascending."""
    start = bisect.bisect_right(ids, window.after)
    expected = ids[start : start + len(window.ids)]
    if expected != window.ids:
        at = next((n for n, (a, b) in enumerate(zip(window.ids, expected)) if a != b), min(len(expected), len(window.ids)))
        seen = window.ids[at]
        index = bisect.bisect_left(ids, seen)
        near = [f"history: {list(ids[max(0, start + at - EXCERPT) : start + at + EXCERPT])}"]
        near += [f"session: {list(window.ids[max(0, at - EXCERPT) : at + EXCERPT])}", describe(window)]
        if index == len(ids) or ids[index] != seen:
            return [Offence("not in the history", window.who, f"message {seen} of channel {window.channel_id}", near)]
        missed = list(ids[start + at : index])
        return [Offence("missed", window.who, f"{missed[:5]} ({len(missed)}) of channel {window.channel_id}", near)]
    rest = ids[start + len(window.ids) :]
    if window.end == LIVE:
        missed = list(rest)
    else:
        missed = [each for each in rest if acked_at.get(each) and acked_at[each] < window.ended_at - ANNOUNCED_SECONDS]
    if missed:
        detail = f"{missed[:5]} ({len(missed)}) of channel {window.channel_id}, and nothing after it"
        return [Offence("missed", window.who, detail, [describe(window)])]
    return []


def describe(window):
    until = f"{window.ended_at:.1f} s ({window.end})" if window.ended_at is not None else "the end"
    return f"window: from {window.begun_at:.1f} s, after {window.after}, until {until}, {len(window.ids)} messages"


def check_denied(sessions, denied, told):
    """H5 for accounts that may view a channel at times: sent after the right had gone, and answered before it came back."""
    by_id = {each.message_id: each for each in told if each.message_id is not None}
    found = []
    for session in sessions:
        spans = [span for span in denied if span.user == session.account]
        for channel_id, message_id, _ in session.wandered:
            each = by_id.get(message_id)
            if each is None:
                continue
            for span in spans:
                if span.channel_id == channel_id and span.since < each.begun_at and each.acked_at < span.until:
                    detail = f"message {message_id} of channel {channel_id}, sent at {each.begun_at:.1f} s; "
                    detail += f"it may not view it from {span.since:.1f} to {span.until:.1f} s"
                    found.append(Offence("leaked", session.who, detail))
    return found


def excerpt(messages, message_id):
    """The history around a message."""
    at = bisect.bisect_left(messages, (message_id, ""))
    return [f"{each} {text!r}" for each, text in messages[max(0, at - EXCERPT) : at + EXCERPT]]
