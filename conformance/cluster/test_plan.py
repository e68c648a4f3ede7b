"""The plan of faults: a seed determines it, and each kind of fault comes with the state that its cause needs."""
import itertools
import unittest

import plan

NODES = 3


def first(seed, count):
    return list(itertools.islice(plan.faults(seed, NODES), count))


class Plans(unittest.TestCase):
    def test_a_shorter_run_is_the_beginning_of_a_longer_one(self):
        self.assertEqual(first(7, 10), first(7, 200)[:10])
        self.assertNotEqual(first(7, 10), first(8, 10))

    def test_each_round_has_every_kind_once(self):
        count = len(plan.KINDS)
        faults = first(1, 3 * count)
        for begin in range(0, len(faults), count):
            self.assertEqual({fault.kind for fault in faults[begin : begin + count]}, set(plan.KINDS))

    def test_moves_are_about_the_owner_of_a_guild_and_their_faults_come_soon(self):
        moves = [fault for fault in first(3, 200) if fault.kind.startswith(plan.MOVE)]
        self.assertEqual({fault.kind for fault in moves}, {plan.MOVE, *plan.MOVES_HIT})
        for fault in moves:
            self.assertIn(fault.guild, range(plan.GUILDS))
            self.assertIsNone(fault.node)
            if fault.kind in plan.MOVES_HIT:
                self.assertTrue(plan.MOVE_MS[0] <= fault.value <= plan.MOVE_MS[1], fault)
                _, kind = plan.MOVES_HIT[fault.kind]
                # It is caused as a fault of that kind.
                self.assertEqual(fault.link, plan.KINDS[kind][2])

    def test_the_short_plan_moves_guilds(self):
        kinds = [fault.kind for fault in plan.short(1, NODES)]
        self.assertEqual(kinds, list(plan.SHORT))
        self.assertIn(plan.MOVE, kinds)

    def test_in_turn_each_node_has_each_event(self):
        for kinds in (plan.IN_TURN, plan.ROLLING):
            faults = list(plan.in_turn(NODES, kinds, 3))
            self.assertEqual(len(faults), 1 + NODES * (len(kinds) - 1))
            self.assertEqual([fault.guild for fault in faults if fault.kind == plan.MOVE], [0, 1, 2])
            self.assertEqual([fault.node for fault in faults if fault.kind == "drain"], [0, 1, 2])


if __name__ == "__main__":
    unittest.main()
