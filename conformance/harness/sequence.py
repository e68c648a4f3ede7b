"""Sequence numbers: where they may have gaps.

Owns        the number that is due, and the replay that is under way.
Doors       `resumes` when a RESUME is sent, `takes` for each dispatch in its order, `finish` after the last.
Invariants  Q1 numbers ascend by one, outside replays without exception. Q2 a replay may leave out presences that a later one
            of the same replay supersedes, so each gap needs a PRESENCE_UPDATE behind it, at or before RESUMED.
            Q3 a replay has one presence of each member.
Spec        docs/protocol/reference.md §1.
"""
from .failure import Failure


class SequenceJudge:
    """Judges the numbers of one session."""

    def __init__(self):
        self.seq = 0
        self._is_replay = False
        # Of the replay under way: the gap with no presence behind it yet, and members whose presence came.
        self._open_gap = None
        self._shown = set()

    def resumes(self, seq):
        """A RESUME from behind `seq` is sent; None if the client had no dispatch."""
        if (seq or 0) != self.seq:
            raise Failure(f"RESUME has {seq}, and the last dispatch had {self.seq}")
        self._is_replay = True
        self._open_gap = None
        self._shown.clear()

    def takes(self, seq, name, member=None):
        """A dispatch came; `member` of a PRESENCE_UPDATE, if the client reports it. Returns how many numbers were left out before it."""
        due = self.seq + 1
        if seq < due or (seq > due and not self._is_replay):
            raise Failure(f"{name} has sequence number {seq}, {due} was due")
        self.seq = seq
        if self._is_replay:
            if seq > due:
                self._open_gap = (due, seq)
            if name == "PRESENCE_UPDATE":
                self._open_gap = None
                if member is not None and member in self._shown:
                    raise Failure(f"a replay has two presences of {member}, the second at {seq}")
                self._shown.add(member)
            elif name == "RESUMED":
                self._is_replay = False
                if self._open_gap:
                    raise Failure(f"a replay leaves out {self._open_gap}, with no presence behind it")
        return seq - due

    def finish(self):
        """Nothing more comes."""
        if self._is_replay:
            raise Failure(f"no RESUMED ended the replay; the last dispatch had {self.seq}")
