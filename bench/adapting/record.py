"""The results of the rows: facts by name, tables, and a record for the repository. Repeated runs count with their median.

A piece may have been cut short. Its incomplete groups are left out.
"""
import collections, os, statistics
import records
from records import percent, table
from .engines import MAPPINGS, MOST_LOOPS
from .joint import PARTNERS, POLICIES, PROGRAMS
from .places import PLACES, TARGET

SCHEMA = "corun.adapt-bench/1"
# A cell misses its target below this share of the best fixed number, and a solo cell below this one.
WANTED, WANTED_ALONE = 0.95, 0.99
# LADM's slowdown may be this many times that of a program which moves its work without loss.
ALLOWED = 1.15


def medians(rows, key, name="rate"):
    groups = collections.defaultdict(list)
    for row in rows:
        groups[key(row)].append(row[name])
    return {of: statistics.median(group) for of, group in groups.items()}, {of: len(group) for of, group in groups.items()}


def rate(value):
    return f"{value / 1e3:.0f} k" if value >= 10_000 else f"{value:.3g}"


def of_cells(rows):
    by, times = medians(rows["cells"], lambda r: (r["program"], r["place"], r["threads"]))
    beside, _ = medians(rows["cells"], lambda r: (r["program"], r["place"], r["threads"]), "neighbours")
    widths = sorted({threads for _, _, threads in by if threads != "adaptive"})
    lines, shares, gains, left = [], {}, {}, {}
    for program in dict.fromkeys(program for program, _, _ in by):
        for where in PLACES:
            runs = {n: by.get((program, where, n)) for n in [*widths, "adaptive"]}
            if None in runs.values():
                continue
            *fixed, own = runs.values()
            of = (program, where)
            shares[of], gains[of] = own / max(fixed), own / fixed[-1]
            cpus = [beside[program, where, threads] for threads in (widths[-1], "adaptive")]
            has_neighbours = where not in ("alone", "quota of half")
            if has_neighbours:
                left[of] = cpus[1] / cpus[0]
            lines.append([f"{program}, {where}", *map(rate, runs.values()), percent(shares[of], 0), f"{gains[of]:.2f}",
                          *(f"{of:.2f}" if has_neighbours else "" for of in cpus)])
    if not lines:
        return {}
    head = ["program, where", *(f"{n} thread{'s' if n > 1 else ''}" for n in widths), "adaptive", "of the best", f"times {widths[-1]} threads",
            f"CPUs of neighbours next to {widths[-1]}", "next to adaptive"]
    named = lambda of: f"{of[0]}, {of[1]}"
    is_missed = {of: share < (WANTED_ALONE if of[1] == "alone" else WANTED) for of, share in shares.items()}
    alone = {of: share for of, share in shares.items() if of[1] == "alone"}
    at_a_glance = lambda of, show: table(["program", *PLACES], [
        [program, *(show(of[program, where]) if (program, where) in of else "" for where in PLACES)]
        for program in dict.fromkeys(program for program, _ in of)])
    found = {"cells.table": table(head, lines), "cells.shares": at_a_glance(shares, lambda of: percent(of, 0)),
             "cells.gains": at_a_glance(gains, lambda of: f"{of:.2f}"), "cells.rounds": min(times.values()), "cells.count": len(shares),
             "cells.missed": sum(is_missed.values()), "cells.held": len(shares) - sum(is_missed.values())}
    for name, of, worst, shown in (("worst", shares, min, lambda v: percent(v, 0)), ("alone", alone, min, percent),
                                   ("gain", gains, max, lambda v: f"{v:.2f}"), ("left", left, min, lambda v: percent(v, 0))):
        if of:
            which = worst(of, key=of.get)
            found |= {f"cells.{name}": shown(of[which]), f"cells.{name}.whose": named(which)}
    return found


def of_engine(rows):
    by, times = medians(rows["engine"], lambda r: (r["mapping"], r["loops"]))
    efficiency, _ = medians(rows["engine"], lambda r: (r["mapping"], r["loops"]), "efficiency")
    wanted = [("one worker", 0), *((name, loops) for name in MAPPINGS for loops in range(MOST_LOOPS + 1))]
    if any(of not in by for of in wanted):
        return {}
    lines, ahead, within, found = [], 0, 0, {}
    for loops in range(MOST_LOOPS + 1):
        # With all CPUs shared evenly among all threads: two workers and k loops on two CPUs.
        fair = max((2 + loops) / 2, 1)
        # The rest if each loop has half a CPU, as in the paper.
        bound = 2 / (2 - loops / 2) if loops < 4 else float("inf")
        slowdowns = {name: by[name, 0] / by[name, loops] for name in MAPPINGS}
        lines.append([loops, *(f"{slowdowns[name]:.2f}" for name in MAPPINGS), f"{fair:.1f}", f"{bound:.2f}" if loops < 4 else "no bound",
                      *(percent(efficiency[name, loops], 0) for name in ("FM", "LADM"))])
        found |= {f"engine.{loops}.{name.split(',')[0].lower()}{'.spins' if ',' in name else ''}": f"{slowdowns[name]:.2f}" for name in MAPPINGS}
        if loops:
            ahead += by["LADM", loops] > by["FM", loops]
            within += slowdowns["LADM"] <= ALLOWED * bound
    found["engine.table"] = table(["loops", *MAPPINGS, "all threads alike, 1 + k/2", "n/(n - k/2)", "FM, not for nothing", "LADM, not for nothing"], lines)
    found |= {"engine.rounds": min(times.values()), "engine.ahead": ahead, "engine.within": within, "engine.loops": MOST_LOOPS,
              "engine.alone.cost": percent(1 - by["LADM", 0] / by["FM", 0]), "engine.two": f"{by['FM', 0] / by['one worker', 0]:.2f}"}
    return found


def of_reaction(rows):
    lines, found = [], {}
    for change in ("comes", "goes"):
        all_of = [row["seconds"] for row in rows["reaction"] if row["change"] == change]
        known = sorted(seconds for seconds in all_of if seconds is not None)
        if known:
            times = [statistics.median(known), known[-1]]
            lines.append([f"a neighbour {change}", len(all_of), len(all_of) - len(known), *(f"{1e3 * t:.0f} ms" for t in times)])
            found |= {f"reaction.{change}": f"{1e3 * times[0]:.0f} ms", f"reaction.{change}.most": f"{1e3 * times[1]:.0f} ms"}
    if lines:
        found["reaction.table"] = table(["what changes", "times", "never noticed", "median", "longest"], lines)
    return found


def of_ross(rows):
    by, times = medians(rows["ross"], lambda r: r["engine"])
    theirs, one, sequential = (by.get(name) for name in ("ROSS, sequential", "`run`, one worker", "`run_sequentially`"))
    if None in (theirs, one, sequential):
        return {}
    found = {"ross.table": table(["engine", "million events a CPU second", "µs an event", "times ROSS"], [
        [name, f"{value / 1e6:.2f}", f"{1e6 / value:.3f}", f"{value / theirs:.2f}"] for name, value in by.items()])}
    found |= {"ross.rounds": min(times.values()), "ross.times": f"{sequential / theirs:.1f}", "ross.one": f"{one / theirs:.1f}",
              "ross.over": f"{1e6 / one - 1e6 / sequential:.2f} µs"}
    return found


def of_joint(rows):
    by, times = medians(rows["joint"], lambda r: (r["program"], r["beside"], r["policy"]))
    if any((name, None, "CFS") not in by for name in PROGRAMS):
        return {}
    share = {of: value / by[of[0], None, "CFS"] for of, value in by.items()}
    found, lines = {"joint.rounds": min(times.values())}, []
    for partner in PARTNERS:
        # As in the paper: the mean over programs of their rates, relative to those next to FM under CFS.
        before = [("FM", partner, "CFS"), (partner, "FM", "CFS")]
        for policy in POLICIES:
            for mapping in ("FM", "LADM"):
                pair = [(mapping, partner, policy), (partner, mapping, policy)]
                if any(of not in share for of in [*pair, *before]):
                    continue
                speed_up = statistics.mean(share[now] / share[then] for now, then in zip(pair, before))
                both = sum(share[of] for of in pair)
                lines.append([f"{partner}, {mapping}, {policy}", *(percent(share[of], 0) for of in pair), percent(both, 0), f"{speed_up:.2f}"])
                name = f"joint.{partner.split()[0]}.{mapping.lower()}.{policy.lower()}"
                found |= {name: f"{speed_up:.2f}", f"{name}.both": percent(both, 0)}
    found["joint.table"] = table(["next to, mapping, policy", "engine, of alone", "the other, of alone", "both", "speed-up over FM, CFS"], lines)
    return found


PARTS = (of_cells, of_engine, of_reaction, of_ross, of_joint)


def write(rows, folder):
    """Write a folder for `scripts/keep-record`."""
    found = records.facts(rows, PARTS)
    records.write(
        folder, SCHEMA, "Programs that adapt, and the simulation engine", os.path.join(TARGET, "corun"), found, {"rows": rows},
        [f"bench/adapt.py {kind}" for kind in sorted(rows) if rows[kind]],
        "`result.json.gz` has every run. What is run is in `bench/adapting`.")
