"""Tests of the halves of a gate's pair with made-up turns. The tests of the program `corun` run them."""
import os, statistics, sys, unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from verdicts import gate


def part(times):
    return {"count": len(times), "mean_s": statistics.mean(times), "deviation_s": statistics.stdev(times) if len(times) > 1 else None}


class Pooled(unittest.TestCase):
    def test_parts_come_to_what_all_their_iterations_come_to(self):
        for parts in ([[1, 2, 4]], [[1, 2, 4], [8, 9]], [[1, 2], [7], [3, 3, 3]]):
            found, whole = gate.pooled([part(times) for times in parts]), part(sum(parts, []))
            self.assertEqual(found["count"], whole["count"])
            self.assertAlmostEqual(found["mean_s"], whole["mean_s"], places=6)
            self.assertAlmostEqual(found["deviation_s"], whole["deviation_s"], places=6)

    def test_nothing_is_unknown_and_one_iteration_has_no_spread(self):
        self.assertIsNone(gate.pooled([]))
        self.assertEqual(gate.pooled([part([3])]), {"count": 1, "mean_s": 3, "deviation_s": 0})

    def test_a_turn_without_a_clean_iteration_leaves_those_of_the_other(self):
        turn = {"raw": part([5, 6]), "cleaned": part([5, 6]), "disturbed": 0, "unclear": 0}
        found = gate.together([turn, {**turn, "cleaned": None, "disturbed": 2}])
        self.assertEqual((found["raw"]["count"], found["cleaned"]["count"], found["disturbed"]), (4, 2, 2))


if __name__ == "__main__":
    unittest.main()
