"""What the rows come to: facts by name, tables, and a record that the tree can keep. What was run several times counts by its median."""
import collections, os, statistics
import records
from records import percent, table
from .engines import MAPPINGS, MOST_LOOPS
from .joint import PARTNERS, POLICIES
from .places import PLACES, TARGET

SCHEMA = "corun.adapt-bench/1"
# A cell is missed below this share of the best fixed number.
WANTED = 0.95


def medians(rows, key, name="rate"):
    groups = collections.defaultdict(list)
    for row in rows:
        groups[key(row)].append(row[name])
    return {of: statistics.median(group) for of, group in groups.items()}, {of: len(group) for of, group in groups.items()}


def rate(value):
    return f"{value / 1e3:.0f} k" if value >= 10_000 else f"{value:.0f}"


def of_cells(rows):
    by, times = medians(rows["cells"], lambda r: (r["program"], r["place"], r["threads"]))
    beside, _ = medians(rows["cells"], lambda r: (r["program"], r["place"], r["threads"]), "neighbours")
    if not by:
        return {}
    widths = sorted({threads for _, _, threads in by if threads != "adaptive"})
    lines, shares, found = [], {}, {}
    for program in dict.fromkeys(program for program, _, _ in by):
        for where in PLACES:
            fixed = {n: by[program, where, n] for n in widths if (program, where, n) in by}
            own = by.get((program, where, "adaptive"))
            if own is None or len(fixed) < len(widths):
                continue
            share = own / max(fixed.values())
            shares[program, where] = share
            of = [beside[program, where, threads] for threads in (widths[-1], "adaptive")]
            lines.append([program, where, *map(rate, fixed.values()), rate(own), percent(share, 0),
                          *(f"{cpus:.2f}" if where not in ("alone", "quota of half") else "" for cpus in of)])
    head = ["program, where", *(f"{n} thread{'s' if n > 1 else ''}" for n in widths), "adaptive", "of the best", f"neighbours next to {widths[-1]}",
            "next to adaptive"]
    missed = {of: share for of, share in shares.items() if share < WANTED}
    worst = min(shares, key=shares.get)
    found["cells.table"] = table(head, [[f"{line[0]}, {line[1]}", *line[2:]] for line in lines])
    found |= {"cells.count": len(shares), "cells.missed": len(missed), "cells.held": len(shares) - len(missed), "cells.rounds": min(times.values()),
              "cells.worst": percent(shares[worst], 0), "cells.worst.whose": f"{worst[0]}, {worst[1]}"}
    return found


def of_engine(rows):
    by, times = medians(rows["engine"], lambda r: (r["mapping"], r["loops"]))
    efficiency, _ = medians(rows["engine"], lambda r: (r["mapping"], r["loops"]), "efficiency")
    found = {}
    if not by:
        return found
    lines = []
    for loops in range(MOST_LOOPS + 1):
        # Were all CPUs shared evenly among all threads: two workers and k loops on two CPUs.
        fair = max((2 + loops) / 2, 1)
        slowdowns = {name: by[name, 0] / by[name, loops] for name in MAPPINGS}
        lines.append([loops, *(f"{slowdowns[name]:.2f}" for name in MAPPINGS), f"{fair:.1f}", f"{2 / (2 - loops / 2):.2f}" if loops < 4 else "",
                      *(percent(efficiency[name, loops], 0) for name in ("FM", "LADM"))])
        found |= {f"engine.{loops}.{name.split(',')[0].lower()}{'.spins' if ',' in name else ''}": f"{slowdowns[name]:.2f}" for name in MAPPINGS}
    found["engine.table"] = table(["loops", *MAPPINGS, "all threads alike, 1 + k/2", "n/(n - k/2)", "FM, not for nothing", "LADM, not for nothing"], lines)
    found["engine.rounds"] = min(times.values())
    found["engine.alone.cost"] = percent(1 - by["LADM", 0] / by["FM", 0])
    found["engine.two"] = f"{by['FM', 0] / by['one worker', 0]:.2f}"
    return found


def of_ross(rows):
    by, times = medians(rows["ross"], lambda r: r["engine"])
    if not by:
        return {}
    theirs, one = by["ROSS, sequential"], by["`run`, one worker"]
    found = {"ross.table": table(["engine", "million events a CPU second", "µs an event", "times ROSS"], [
        [name, f"{value / 1e6:.2f}", f"{1e6 / value:.3f}", f"{value / theirs:.2f}"] for name, value in by.items()])}
    found |= {"ross.rounds": min(times.values()), "ross.times": f"{by['`run_sequentially`'] / theirs:.1f}", "ross.one": f"{one / theirs:.1f}",
              "ross.over": f"{1e6 / one - 1e6 / by['`run_sequentially`']:.2f} µs"}
    return found


def of_joint(rows):
    by, times = medians(rows["joint"], lambda r: (r["program"], r["beside"], r["policy"]))
    if not by:
        return {}
    share = {of: value / by[of[0], None, "CFS"] for of, value in by.items()}
    found, lines = {"joint.rounds": min(times.values())}, []
    for partner in PARTNERS:
        for policy in POLICIES:
            for mapping in ("FM", "LADM"):
                pair = [(mapping, partner, policy), (partner, mapping, policy)]
                if any(of not in share for of in pair):
                    continue
                # As the paper's: the mean over programs of what each does, by what it does next to FM under CFS.
                before = [("FM", partner, "CFS"), (partner, "FM", "CFS")]
                speed_up = statistics.mean(share[now] / share[then] for now, then in zip(pair, before))
                both = sum(share[of] for of in pair)
                lines.append([f"{partner}, {mapping}, {policy}", *(percent(share[of], 0) for of in pair), percent(both, 0), f"{speed_up:.2f}"])
                name = f"joint.{partner.split()[0]}.{mapping.lower()}.{policy.lower()}"
                found |= {name: f"{speed_up:.2f}", f"{name}.both": percent(both, 0)}
    found["joint.table"] = table(["next to, mapping, policy", "engine, of alone", "the other, of alone", "both", "speed-up over FM, CFS"], lines)
    return found


def write(rows, folder):
    """A folder for `scripts/keep-record`."""
    found = records.facts(rows, (of_cells, of_engine, of_ross, of_joint))
    records.write(
        folder, SCHEMA, "Programs that adapt, and the simulation engine", os.path.join(TARGET, "corun"), found, {"rows": rows},
        [f"bench/adapt.py {kind}" for kind in sorted(rows) if rows[kind]],
        "`result.json.gz` has every run. What is run is in `bench/adapting`.")
