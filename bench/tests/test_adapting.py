"""Tests of the results of `bench/adapt.py` with made-up rows. The tests of the program `corun` run them."""
import json, os, sys, tempfile, unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import records
from adapting import reaction, record
from adapting.engines import MAPPINGS, MOST_LOOPS
from adapting.joint import PARTNERS, POLICIES, PROGRAMS


def cell(program, place, rates, neighbours=(0, 0, 0)):
    of = zip((1, 2, "adaptive"), rates, neighbours)
    return [{"kind": "cells", "program": program, "place": place, "threads": n, "rate": rate, "neighbours": cpus} for n, rate, cpus in of]


def engine(slowdown):
    """One worker does 10 events per second, two pinned ones 20, LADM 19. `slowdown` is by mapping and number of loops."""
    alone = {"FM": 20, "LADM": 19, "LADM, spins": 19}
    runs = [{"mapping": name, "loops": k, "rate": alone[name] / slowdown(name, k), "efficiency": 0.5} for name in MAPPINGS for k in range(MOST_LOOPS + 1)]
    return [{"kind": "engine", **run} for run in [{"mapping": "one worker", "loops": 0, "rate": 10, "efficiency": 1}, *runs]]


def joint(beside):
    """Every program does 100 per second alone. `beside` has the rates of the engine and its partner by policy and mapping."""
    rows = [{"program": name, "beside": None, "policy": "CFS", "rate": 100} for name in PROGRAMS]
    for partner in PARTNERS:
        for policy in POLICIES:
            for mapping in ("FM", "LADM"):
                pair = zip(((mapping, partner), (partner, mapping)), beside(policy, mapping))
                rows += [{"program": one, "beside": other, "policy": policy, "rate": rate} for (one, other), rate in pair]
    return [{"kind": "joint", **row} for row in rows]


def read(lines):
    """Return the rows as read from a file."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
        file.flush()
        return records.read([file.name])


class Facts(unittest.TestCase):
    def facts(self, lines):
        return records.facts(read(lines), record.PARTS)

    def test_a_cell_is_held_against_the_best_fixed_number_and_alone_more_strictly(self):
        found = self.facts([*cell("a", "alone", (50, 100, 98)), *cell("a", "one loop", (80, 20, 76), (0.5, 1.0, 1.25)),
                            *cell("b", "alone", (50, 100, 99)), *cell("b", "two loops", (80, 20, 60), (0.5, 2.0, 1.0)),
                            *cell("b", "quota of half", (80, 20, 80))])
        self.assertEqual([found[f"cells.{name}"] for name in ("count", "missed", "held", "rounds")], ["5", "2", "3", "1"])
        self.assertEqual((found["cells.worst"], found["cells.worst.whose"]), ("75 %", "b, two loops"))
        self.assertEqual((found["cells.alone"], found["cells.alone.whose"]), ("98.0 %", "a, alone"))
        self.assertEqual((found["cells.gain"], found["cells.gain.whose"]), ("4.00", "b, quota of half"))
        self.assertEqual((found["cells.left"], found["cells.left.whose"]), ("50 %", "b, two loops"))
        self.assertIn("| a, one loop | 80 | 20 | 76 | 95 % | 3.80 | 1.00 | 1.25 |", found["cells.table"])
        self.assertIn("| b | 99 % |  | 75 % | 100 % |  |  |  |", found["cells.shares"])
        self.assertIn("| b | 0.99 |  | 3.00 | 4.00 |  |  |  |", found["cells.gains"])

    def test_what_was_run_several_times_counts_by_its_median(self):
        found = self.facts([*cell("a", "alone", (10, 100, 1)), *cell("a", "alone", (10, 100, 100)), *cell("a", "alone", (10, 100, 103))])
        self.assertEqual((found["cells.alone"], found["cells.rounds"]), ("100.0 %", "3"))

    def test_mappings_are_held_against_each_other_and_the_bound(self):
        found = self.facts(engine(lambda name, k: 1 + k if name == "FM" else 1 + 0.6 * k))
        names = ("engine.two", "engine.alone.cost", "engine.4.fm", "engine.1.ladm", "engine.ahead", "engine.within")
        # With one loop 1.6 compared with 1.33 times 1.15, with two 2.2 compared with 2.3.
        self.assertEqual([found[name] for name in names], ["2.00", "5.0 %", "5.00", "1.60", "4", "3"])

    def test_the_joint_scheme_is_held_against_fm_under_cfs(self):
        rates = {("CFS", "FM"): (20, 50), ("CC", "LADM"): (40, 75)}
        found = self.facts(joint(lambda policy, mapping: rates.get((policy, mapping), (20, 50))))
        self.assertEqual((found["joint.spinning.ladm.cc"], found["joint.spinning.ladm.cc.both"]), ("1.75", "115 %"))
        self.assertEqual(found["joint.blocking.fm.cfs"], "1.00")

    def test_pieces_that_were_cut_short_say_what_is_whole(self):
        for lines in (engine(lambda *_: 1), joint(lambda *_: (1, 1)), cell("a", "alone", (1, 2, 2))):
            for length in range(len(lines)):
                self.facts(lines[:length])
        self.assertEqual(self.facts(cell("a", "alone", (1, 2, 2))[:2]), {})

    def test_a_record_read_again_adds_up(self):
        lines = [*engine(lambda name, k: 1 + k), *joint(lambda *_: (1, 1)), *cell("a", "alone", (1, 2, 2)),
                 {"kind": "reaction", "change": "comes", "seconds": 0.1}, {"kind": "reaction", "change": "comes", "seconds": None},
                 *({"kind": "ross", "engine": name, "rate": 2e6} for name in ("ROSS, sequential", "`run`, one worker", "`run_sequentially`"))]
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(records, "first_line", return_value="corun 0"):
            record.write(read(lines), folder)
            again = records.read([f"{folder}/result.json"])
            self.assertEqual({kind: of for kind, of in again.items() if of}, dict(read(lines)))
            with open(f"{folder}/result.json") as file:
                found = json.load(file)["facts"]
            with open(f"{folder}/README.md") as file:
                text = file.read()
        for kind in ("cells", "engine", "reaction", "ross", "joint"):
            self.assertIn(f"{kind}.table", found)
            self.assertIn(f"bench/adapt.py {kind}\n", text)


class Reactions(unittest.TestCase):
    def test_each_turn_counts_from_its_change_to_the_first_width_that_fits(self):
        turns = [(10, True), (20, False), (30, True), (40, False)]
        with mock.patch.object(reaction, "CPUS", 2):
            # Noticed after 0.1 s; then one more is tried, so the next turn shows nothing; not noticed at all.
            changes = [(0, 2), (10.1, 1), (19.9, 2)]
            self.assertEqual([(comes, round(s, 3) if s else s) for comes, s in reaction.reactions(changes, turns)],
                             [(True, 0.1), (True, None)])
            self.assertEqual(reaction.told(["1500000000 2"]), [(1.5, 2)])


if __name__ == "__main__":
    unittest.main()
