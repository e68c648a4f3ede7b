"""Tests of the history checker: faulty histories that it must refuse, and good ones that it must accept."""
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from history import LIVE, Denied, Record, Told  # noqa: E402
from history import SessionLog  # noqa: E402

GUILD, OPEN, SECRET, STAFF = 1, 10, 11, 12


class Case(unittest.TestCase):
    """A guild with one channel and three messages, and a session that sees all of them."""

    def setUp(self):
        self.record = Record()
        self.stored = {OPEN: [(100, "message 1"), (101, "message 2"), (102, "message 3")]}
        self.record.told = [Told(OPEN, text, 1.0, 2.0, message_id) for message_id, text in self.stored[OPEN]]

    def session(self, after=99, who="guest-1 at node-0"):
        log = SessionLog(who, {OPEN}, {STAFF}, self.record.report)
        self.record.sessions.append(log)
        log.available(GUILD, {OPEN: after, SECRET: 0}, 1.0)
        return log

    def see(self, log, *ids):
        for message_id in ids:
            log.message(GUILD, OPEN, message_id, 3.0)

    def offences(self):
        return [offence.kind for offence in self.record.judge(self.stored)]

    def check(self, *what):
        self.assertEqual(self.offences(), list(what))


class Good(Case):
    def test_everything_once_in_order(self):
        log = self.session()
        self.see(log, 100, 101, 102)
        log.finish(5.0, LIVE)
        self.check()

    def test_what_was_there_before_is_not_due(self):
        log = self.session(after=101)
        self.see(log, 102)
        log.finish(5.0, LIVE)
        self.check()

    def test_an_announced_outage_excuses_what_came_in_it(self):
        log = self.session()
        self.see(log, 100)
        log.unavailable(GUILD, 4.0)
        log.available(GUILD, {OPEN: 101}, 6.0)
        self.see(log, 102)
        log.finish(9.0, LIVE)
        self.check()

    def test_a_lost_session_misses_nothing(self):
        log = self.session()
        self.see(log, 100)
        log.finish(4.0)
        again = self.session(after=102)
        again.finish(9.0, LIVE)
        self.check()

    def test_a_message_without_an_answer_may_be_there_or_not(self):
        self.record.told.append(Told(OPEN, "message 4", 3.0))
        log = self.session()
        self.see(log, 100, 101, 102)
        log.finish(5.0, LIVE)
        self.check()

    def test_rights_at_times(self):
        self.stored[STAFF] = [(200, "before"), (201, "after")]
        self.record.told += [Told(STAFF, "before", 1.0, 2.0, 200), Told(STAFF, "after", 9.0, 9.5, 201)]
        self.record.denied.append(Denied("guest-1", STAFF, 3.0, 8.0))
        log = self.session(after=102)
        log.message(GUILD, STAFF, 200, 2.0)
        log.message(GUILD, STAFF, 201, 9.5)
        log.finish(10.0, LIVE)
        self.check()


class Faulty(Case):
    def test_h1_an_acknowledged_message_is_gone(self):
        del self.stored[OPEN][1]
        self.check("lost")

    def test_h1_an_acknowledged_message_has_another_text(self):
        self.stored[OPEN][1] = (101, "message 9")
        self.check("lost")

    def test_h2_a_repeated_request_was_done_twice(self):
        self.stored[OPEN].append((103, "message 3"))
        self.check("done twice")

    def test_h3_a_message_comes_twice(self):
        log = self.session()
        self.see(log, 100, 101, 101, 102)
        log.finish(5.0, LIVE)
        self.check("twice")

    def test_h3_a_message_comes_twice_around_an_outage(self):
        log = self.session()
        self.see(log, 100, 101)
        log.unavailable(GUILD, 4.0)
        log.available(GUILD, {OPEN: 101}, 5.0)
        self.see(log, 101, 102)
        log.finish(6.0, LIVE)
        self.check("twice")

    def test_h3_messages_out_of_order(self):
        log = self.session()
        self.see(log, 101, 100)
        log.finish(3.0)
        self.assertIn("out of order", self.offences())

    def test_h3_a_message_of_before_guild_create(self):
        log = self.session(after=101)
        self.see(log, 100, 102)
        log.finish(3.0)
        self.check("out of order")

    def test_h3_a_message_that_is_not_in_the_history(self):
        log = self.session()
        self.see(log, 100, 101, 102, 150)
        log.finish(5.0, LIVE)
        self.check("not in the history")

    def test_h3_a_message_of_an_unavailable_guild(self):
        log = self.session(after=101)
        log.unavailable(GUILD, 3.0)
        self.see(log, 102)
        log.finish(5.0, LIVE)
        self.check("unannounced")

    def test_h4_a_message_is_missing_between_others(self):
        log = self.session()
        self.see(log, 100, 102)
        log.finish(5.0)
        self.check("missed")

    def test_h4_the_first_message_after_guild_create_is_missing(self):
        log = self.session()
        self.see(log, 101, 102)
        log.finish(5.0)
        self.check("missed")

    def test_h4_the_last_message_is_missing(self):
        log = self.session()
        self.see(log, 100, 101)
        log.finish(5.0, LIVE)
        self.check("missed")

    def test_h4_a_loss_that_is_announced_too_late(self):
        log = self.session()
        self.see(log, 100)
        log.unavailable(GUILD, 300.0)
        self.check("missed")

    def test_h4_the_state_went_back(self):
        log = self.session()
        self.see(log, 100, 101, 102)
        log.unavailable(GUILD, 4.0)
        log.available(GUILD, {OPEN: 101}, 5.0)
        log.finish(6.0)
        self.check("went back")

    def test_h5_a_channel_that_it_may_not_view(self):
        log = self.session(after=102)
        log.message(GUILD, SECRET, 500, 3.0)
        log.finish(5.0, LIVE)
        self.check("leaked")

    def test_h5_a_right_that_was_taken_away(self):
        self.stored[STAFF] = [(200, "meanwhile")]
        self.record.told.append(Told(STAFF, "meanwhile", 4.0, 5.0, 200))
        self.record.denied.append(Denied("guest-1", STAFF, 3.0))
        log = self.session(after=102)
        log.message(GUILD, STAFF, 200, 5.0)
        log.finish(6.0, LIVE)
        self.check("leaked")

    def test_h6_a_key_comes_twice(self):
        log = self.session(after=102)
        log.keyed("key-1")
        log.keyed("key-2")
        log.keyed("key-1")
        log.finish(5.0, LIVE)
        self.check("key twice")


class Missed(Case):
    def test_messages_between_two_sessions_and_in_an_outage_are_counted_by_the_time_of_the_next_window(self):
        log = self.session()
        self.see(log, 100)
        log.finish(4.0)
        again = SessionLog("guest-1 at node-2", {OPEN}, {STAFF}, self.record.report)
        self.record.sessions.append(again)
        again.available(GUILD, {OPEN: 101}, 6.0)
        again.unavailable(GUILD, 7.0)
        again.available(GUILD, {OPEN: 102}, 8.0)
        # Another account, which misses nothing.
        other = self.session(after=102, who="guest-2 at node-0")
        for each in (again, other):
            each.finish(9.0, LIVE)
        self.check()
        counts = [self.record.missed(self.stored, since, until) for since, until in ((0, 6), (6, 7), (7, 9))]
        self.assertEqual(counts, [0, 1, 1])


if __name__ == "__main__":
    unittest.main()
