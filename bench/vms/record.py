"""The results of the rows: facts by name, tables, and a record for the repository.

Degradation is that of the paper: how much longer the same work takes than alone, here from the rates of work, `alone / next to others - 1`.
Repeated runs count with their median.
"""
import collections, statistics
import records
from records import percent, table
from .guests import CORUN
from .pieces import PROGRAMS

SCHEMA = "corun.vms-bench/1"
# The figures of `corun profile --vm` without hardware counters: the name in a table, and whether it is a share of the virtual CPUs' time.
COUNTS = {"on_cpu": "time on a CPU", "stolen": "time stolen", "blocked": "time blocked", "preemptions": "preemptions",
          "wakeups": "wake-ups", "migrations": "moves between CPUs"}
SHARES = ("on_cpu", "stolen", "blocked")


def medians(rows, key):
    """Return by key the median of each number of its rows. `None` if one of them is unknown."""
    groups = collections.defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)

    def median(of, name):
        values = [row[name] for row in of]
        return None if None in values else statistics.median(values)
    names = ["work", "long_waits", "longest_ns", "between_cores", *COUNTS]
    return {of: {name: median(group, name) for name in names} for of, group in groups.items()}


def apart(rows, key):
    """Return by key how far repetitions are apart: the largest rate of work over the least, minus 1."""
    groups = collections.defaultdict(list)
    for row in rows:
        groups[key(row)].append(row["work"])
    return {of: max(works) / min(works) - 1 for of, works in groups.items() if len(works) > 1}


def correlation(points):
    """Return Pearson's correlation of pairs. `None` if either does not vary, or is unknown."""
    xs, ys = zip(*points)
    if None in xs or None in ys or len(points) < 3 or len(set(xs)) < 2 or len(set(ys)) < 2:
        return None
    return statistics.correlation(xs, ys)


def of_moves(rows):
    found, lines = {}, []
    by_vm = medians(rows["moves"], lambda r: (r["vms"], r["vm"]))
    for count in sorted({vms for vms, _ in by_vm}):
        of = {vm: m for (vms, vm), m in by_vm.items() if vms == count}
        moves = [60 * m["migrations"] for m in of.values()]
        found |= {f"moves.{count}.total": f"{sum(moves):.0f}", f"moves.{count}.least": f"{min(moves):.0f}", f"moves.{count}.most": f"{max(moves):.0f}",
                  f"moves.{count}.stolen": percent(statistics.mean(m["stolen"] for m in of.values()))}
        lines += [[count, vm, percent(m["on_cpu"]), percent(m["stolen"]), f"{60 * m['preemptions']:.0f}", f"{60 * m['migrations']:.0f}",
                   f"{60 * m['between_cores']:.0f}"] for vm, m in sorted(of.items())]
    if lines:
        found["moves.table"] = table(["VMs", "VM", "on a CPU", "stolen", "preemptions a minute", "moves a minute", "between cores"], lines)
        found["moves.seconds"] = f"{max(r['seconds'] for r in rows['moves']):.0f} s"
        found["moves.pieces"] = max(collections.Counter((r["vms"], r["vm"]) for r in rows["moves"]).values())
    return found


def of_pairs(rows):
    found = {}

    def company(row):
        return row["program"], row["situation"], tuple(row["beside"])
    by = medians(rows["pairs"], company)
    # A piece that was cut short shows nothing by itself.
    wanted = {(own, situation, (other,)) for own in PROGRAMS for other in PROGRAMS if own != other for situation in ("two on a CPU", "a CPU each")}
    if not by.keys() >= wanted | {(own, "alone", ()) for own in PROGRAMS}:
        return found
    alone = {program: by[program, "alone", ()] for program in PROGRAMS}
    lost = {of: alone[of[0]]["work"] / m["work"] - 1 for of, m in by.items()}
    found["pairs.pieces"] = max(collections.Counter(map(company, rows["pairs"])).values())
    again = apart(rows["pairs"], company)
    farthest = max(again, key=again.get, default=None)
    whose = "unknown" if farthest is None else " ".join([farthest[0], farthest[1], *(["next to", *farthest[2]] if farthest[2] else [])])
    found |= {"pairs.apart.median": percent(statistics.median(again.values()) if again else None, 0),
              "pairs.apart.most": percent(again.get(farthest), 0), "pairs.apart.whose": whose}
    found["pairs.alone"] = table(["VM", "steps a second", "on a CPU", "stolen", "blocked", "wake-ups a second"], [
        [program, f"{m['work']:.0f}", percent(m["on_cpu"]), percent(m["stolen"]), percent(m["blocked"]), f"{m['wakeups']:.0f}"]
        for program, m in alone.items()])
    for situation, name in (("two on a CPU", "two"), ("a CPU each", "each")):
        entries = {(own, other): lost[own, situation, (other,)] for own in PROGRAMS for other in PROGRAMS if own != other}
        suffers = {own: statistics.mean(x for (a, _), x in entries.items() if a == own) for own in PROGRAMS}
        inflicts = {own: statistics.mean(x for (_, b), x in entries.items() if b == own) for own in PROGRAMS}
        found[f"pairs.{name}"] = table(["", *PROGRAMS, "suffers", "inflicts"], [
            [own, *("" if own == other else percent(entries[own, other], 0) for other in PROGRAMS), percent(suffers[own], 0), percent(inflicts[own], 0)]
            for own in PROGRAMS])
        found |= {f"pairs.{name}.least": percent(min(entries.values()), 0), f"pairs.{name}.most": percent(max(entries.values()), 0),
                  f"pairs.{name}.mean": percent(statistics.mean(entries.values()), 0)}
    # Figure 4: relative to the best of the three pairings in time, which has the least degradation.
    pairings = {own: {other: 1 + lost[own, "two on a CPU", (other,)] for other in PROGRAMS if other != own} for own in PROGRAMS}
    against_best = {(own, other): time_ / min(of.values()) - 1 for own, of in pairings.items() for other, time_ in of.items()}
    worst = max(against_best, key=against_best.get)
    found |= {"pairs.best.average": percent(statistics.mean(against_best.values())), "pairs.best.worst": percent(against_best[worst]),
              "pairs.best.whose": f"{worst[0]} next to {worst[1]}"}
    found["pairs.free"] = table(["VM", "degradation", "on a CPU", "stolen", "moves a minute"], [
        [of[0], percent(lost[of], 0), percent(m["on_cpu"]), percent(m["stolen"]), f"{60 * m['migrations']:.0f}"]
        for of, m in by.items() if of[1] == "not pinned"])
    free = [r for r in rows["pairs"] if r["situation"] == "not pinned"]
    seconds = sum(r["seconds"] for r in free) / len(PROGRAMS)
    moved = sum(r["migrations"] * r["seconds"] for r in free)
    found |= {"pairs.free.seconds": f"{seconds:.0f} s", "pairs.free.moved": f"{moved:.0f}", "pairs.free.total": f"{60 * moved / seconds:.0f}"}
    lines = []
    for count, name in COUNTS.items():
        within = [correlation([(lost[of], m[count]) for of, m in by.items() if of[0] == program]) for program in PROGRAMS]
        known = [r for r in within if r is not None]
        across = correlation([(lost[of], m[count]) for of, m in by.items()])
        mean = f"{statistics.mean(known):+.2f}" if known else "constant"
        lines.append([name, mean, f"{min(known):+.2f} to {max(known):+.2f}" if known else "", len(known), "constant" if across is None else f"{across:+.2f}"])
        found[f"pairs.with.{count}"] = mean
    found["pairs.correlation"] = table(["count", "within a VM, mean", "of single VMs", "VMs", "across VMs"], lines)
    found["pairs.situations"] = sum(of[0] == PROGRAMS[0] for of in by)
    return found


def of_lock(rows):
    found, lines = {}, []
    by = medians(rows["lock"], lambda r: (r["policy"], r["program"]))
    for (policy, program), m in by.items():
        alone = by["alone", program]["work"]
        found |= {f"lock.{policy}.{program}.work": percent(m["work"] / alone, 0), f"lock.{policy}.{program}.stolen": percent(m["stolen"]),
                  f"lock.{policy}.{program}.long-waits": f"{m['long_waits']:.1f}", f"lock.{policy}.{program}.longest": f"{m['longest_ns'] / 1e6:.0f} ms"}
        lines.append([f"{program}, {policy}", f"{m['work']:.0f}", percent(m["work"] / alone, 0), percent(m["on_cpu"]), percent(m["stolen"]),
                      f"{m['long_waits']:.1f}" if program == "lock" else "", f"{m['longest_ns'] / 1e6:.0f} ms" if program == "lock" else ""])
    if lines:
        found["lock.pieces"] = len([r for r in rows["lock"] if r["policy"] == "none" and r["program"] == "lock"])
        found["lock.table"] = table(["VM, policy", "steps a second", "of those alone", "on a CPU", "stolen", "waits of 1 ms and more a second",
                                     "longest"], lines)
        if ("none", "lock") in by and ("gang", "lock") in by:
            found["lock.gain"] = f"{by['gang', 'lock']['work'] / by['none', 'lock']['work']:.2f}"
    return found


def compact(value):
    """Round numbers to five digits."""
    return float(f"{value:.5g}") if isinstance(value, float) else value


def write(rows, folder):
    """Write a folder for `scripts/keep-record`."""
    found = records.facts(rows, (of_moves, of_pairs, of_lock))
    kept = {kind: [{name: compact(value) for name, value in row.items()} for row in of] for kind, of in rows.items()}
    records.write(
        folder, SCHEMA, "Virtual machines on this machine", CORUN, found, {"rows": kept},
        [f"bench/vms.py {kind}" for kind in sorted(rows) if rows[kind]],
        "`result.json.gz` has every row. What is run is in `bench/vms/pieces.py`, what the guests do in `bench/vms/guest.c`.",
        emulator=records.first_line("qemu-system-x86_64", "--version"))
