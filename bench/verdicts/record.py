"""The results of the rows: facts by name, tables, and a record for the repository."""
import collections, statistics
import records
from records import percent, table
from .gate import KINDS
from .kit import CORUN
from .statistics_of import at_least, at_most, is_slower

SCHEMA = "corun.verify-bench/1"
UNKNOWN = "unknown"


def facts(rows):
    return records.facts(rows, (of_versions, of_runs, of_gate, of_labels, of_overhead))


def of_versions(rows):
    """Return the versions of the program in the rows, and their machines, oldest first. Earlier sessions are included."""
    marks = lambda r: tuple(r.get(mark) or UNKNOWN for mark in ("version", "machine"))
    days, of = {}, collections.defaultdict(list)
    for kind in KEPT:
        for r in rows[kind]:
            days[marks(r)] = min(r.get("day") or UNKNOWN, days.get(marks(r), UNKNOWN))
            of[kind, marks(r)].append(r)
    days = dict(sorted(days.items(), key=lambda of: of[1]))
    lines = []
    for which, day in days.items():
        runs, labels = of["runs", which], [r for r in of["labels", which] if r.get("counts") is not False]
        lines.append([*which, day, len(runs), sum((r["truth"], r["said"]) in WRONG for r in runs), len(of["gate", which]), len(labels),
                      sum(r["said"] != right(r) for r in labels), len(of["overhead", which])])
    head = ["version", "machine", "first day", "runs", "of these wrong", "pairs of the gate", "time-outs", "not labelled rightly",
            "rounds of overhead"]
    first = min(days.values(), default=UNKNOWN)
    return {"versions": len({version for version, _ in days}), "versions.first-day": first, "versions.table": table(head, lines)} if days else {}


# The verdict on a run compared with the truth.
WRONG = {("idle", "disturbed"), ("harmless", "disturbed"), ("costly", "clean")}


def right(label):
    """Return the right label: a time-out without starving is `not starved`; `throttled` would be wrong too."""
    return "starved" if label["starved"] else "not starved"


def of_runs(rows):
    found, lines = {}, []
    all_runs = [r for r in rows["runs"] if not r.get("status")]
    if not all_runs:
        return found
    for name, truths, wrong in (("alarms", ("idle", "harmless"), "disturbed"), ("idle", ("idle",), "disturbed"),
                                ("harmless", ("harmless",), "disturbed"), ("misses", ("costly",), "clean")):
        of = [r for r in all_runs if r["truth"] in truths]
        count = sum(r["said"] == wrong for r in of)
        found |= {f"runs.{name}": count, f"runs.{name}.of": len(of), f"runs.{name}.at-most": percent(at_most(count, len(of)), 2),
                  f"runs.{name}.unclear": sum(r["said"] == "unclear" for r in of)}
    of = [r for r in all_runs if r["truth"] == "neither"]
    found["runs.neither"] = len(of)
    of = sorted(r["corun"] for r in all_runs if r.get("corun") is not None)
    if of:
        found |= {"runs.corun.median": percent(statistics.median(of)), "runs.corun.nine-in-ten": percent(of[len(of) * 9 // 10])}
    found["runs.shortest"] = f"{min(r['wall_ms'] for r in all_runs):.0f} ms"
    found["runs.longest"] = f"{max(r['wall_ms'] for r in all_runs) / 1e3:.1f} s"
    for truth in ("idle", "harmless", "costly"):
        groups = collections.defaultdict(list)
        for r in all_runs:
            if r["truth"] == truth:
                groups[r["program"], r["on"]].append(r)
        for (program, on), of in sorted(groups.items()):
            said = collections.Counter(r["said"] for r in of)
            lines.append([truth, program, on, len(of), said["clean"], said["unclear"], said["disturbed"]])
    found["runs.table"] = table(["truth", "program", "on", "runs", "clean", "unclear", "disturbed"], lines)
    wrong = [r for r in all_runs if (r["truth"], r["said"]) in WRONG]
    found["runs.wrong"] = "; ".join(
        f"{r['truth']} called {r['said']}: {r['program']} ({r['on']}) of {r['wall_ms']:.0f} ms next to {r['beside'] or 'nobody'}, "
        f"lost {percent(r.get('lost') or 0)}, said {percent(r['disturbance'])} by {r.get('culprit') or 'nobody'}" for r in wrong) or "none"
    return found


def of_gate(rows):
    found, lines = {}, []
    said = collections.defaultdict(list)
    for r in rows["gate"]:
        for which in ("raw", "cleaned"):
            a, b = (measured[which] for measured in r["pair"])
            said[r["noise"], r["slower"] > 1, which].append(is_slower(a, b))
    if not said:
        return found
    kinds = [k for k in KINDS if any(key[0] == k for key in said)]

    def counted(kinds, slower, which, test=1):
        """Return how many pairs were called slower, how many have an answer, and how many have none."""
        all_said = [s for kind in kinds for s in said[kind, slower, which]]
        answers = [s[test] for s in all_said if s is not None]
        return sum(answers), len(answers), len(all_said) - len(answers)

    def cell(count, of):
        return f"{count} of {of}" if of else "-"
    for kind in kinds:
        line = [kind]
        for slower in (False, True):
            for which in ("raw", "cleaned"):
                count, of, without = counted([kind], slower, which)
                line.append(cell(count, of))
                if which == "cleaned":
                    line.append(without)
        lines.append(line)
    found["gate.table"] = table(
        ["noise", "equal: raw", "cleaned", "no answer", "5 % slower, found: raw", "cleaned", "no answer"], lines)
    noisy = [k for k in kinds if k != "none"]
    for name, of_kinds, which in (("undisturbed", ["none"], "raw"), ("raw", noisy, "raw"), ("cleaned", noisy, "cleaned")):
        for slower, word in ((False, "false"), (True, "found")):
            count, of, without = counted(of_kinds, slower, which)
            found |= {f"gate.{name}.{word}": count, f"gate.{name}.{word}.of": of, f"gate.{name}.{word}.no-answer": without,
                      f"gate.{name}.{word}.share": percent(count / of if of else 0),
                      f"gate.{name}.{word}.at-most": percent(at_most(count, of)), f"gate.{name}.{word}.at-least": percent(at_least(count, of))}
            count, of, _ = counted(of_kinds, slower, which, 0)
            found[f"gate.{name}.{word}.by-significance-alone"] = cell(count, of)
    found["gate.pairs"] = len(rows["gate"])
    iterations = []
    for kind in kinds:
        of_kind = [m for r in rows["gate"] if r["noise"] == kind for m in r["pair"]]
        count, disturbed, unclear = (sum(n) for n in zip(*((m["raw"]["count"], m["disturbed"], m["unclear"]) for m in of_kind)))
        iterations.append([kind, count, disturbed, unclear])
    found["gate.iterations"] = table(["noise", "iterations", "disturbed", "unclear"], iterations)
    return found


def of_labels(rows):
    # Rows of older records lack this field; all of them count.
    of = [r for r in rows["labels"] if r.get("counts") is not False]
    if not of:
        return {}
    wrong = [r for r in of if r["said"] != right(r)]
    groups = collections.defaultdict(collections.Counter)
    for r in of:
        groups["starved" if r["starved"] else "not starved", r["test"]][r["said"]] += 1
    words = ["starved", "not starved", "cannot tell", "throttled"]
    lines = [[truth, test, sum(said.values()), *(said[w] for w in words)] for (truth, test), said in sorted(groups.items())]
    count = len(of) - len(wrong)
    return {
        "labels.of": len(of), "labels.neither": len(rows["labels"]) - len(of), "labels.right": count, "labels.right.share": percent(count / len(of)),
        "labels.right.at-least": percent(at_least(count, len(of))), "labels.starved": sum(r["starved"] for r in of),
        "labels.cannot-tell": sum(r["said"] == "cannot tell" for r in of),
        "labels.opposite": sum(r["said"] == ("not starved" if r["starved"] else "starved") for r in of),
        "labels.table": table(["truth", "test", "time-outs", *words], lines)}


def of_overhead(rows):
    found = {}
    by_program = collections.defaultdict(list)
    for r in rows["overhead"]:
        by_program[r["program"]].append(r)
    lines = []
    for program, of in by_program.items():
        line = [program, len(of)]
        for kind in ("verify", "verify --results", "bare again"):
            ratios = sorted(r[kind] / r["bare"] for r in of)
            middle = statistics.median(ratios)
            # The interval of a median from order statistics, with the normal approximation.
            off = 0.98 * len(ratios) ** 0.5
            low, high = (ratios[max(0, min(len(ratios) - 1, round(len(ratios) / 2 + side * off)))] for side in (-1, 1))
            line.append(f"{100 * middle - 100:+.2f} % ({100 * low - 100:+.2f} to {100 * high - 100:+.2f})")
        lines.append(line)
    if lines:
        found["overhead.table"] = table(["program", "rounds", "under verify", "with `--results`", "bare again"], lines)
    return found


def summary(rows):
    """Return the summary as text for people."""
    out = ""
    for name, value in facts(rows).items():
        out += f"{name}: {value}\n"
    return out


# The kept fields of a row, by kind. Others can be computed from these, or are in no figure.
OF_ALL = ["version", "machine", "day"]
KEPT = {
    "runs": [*OF_ALL, "program", "on", "beside", "length_s", "truth", "lost", "wall_ms", "cpu_ms", "others", "had", "neighbours", "kernel",
             "corun", "corunners", "status", "said", "doubt", "disturbance", "culprit"],
    "gate": [*OF_ALL, "noise", "slower", "tries", "pair"],
    "labels": [*OF_ALL, "starved", "test", "limit_s", "others", "counts", "said"],
    "overhead": [*OF_ALL, "program", "bare", "verify", "verify --results", "bare again"],
}


def read(files):
    """Read the rows of pieces and of earlier records, which add up."""
    rows = records.read(files)
    for row in rows["gate"]:
        row["pair"] = [measured(side) for side in row["pair"]]
    return rows


def measured(side):
    """Return the measurements of a side of a pair. A record has them as a list."""
    if isinstance(side, dict):
        return side
    spread = lambda of: of and dict(zip(("count", "mean_s", "deviation_s"), of))
    raw, cleaned, disturbed, unclear = side
    return {"raw": spread(raw), "cleaned": spread(cleaned), "disturbed": disturbed, "unclear": unclear}


def compact(value):
    """Round numbers to four digits, and turn measurements into a list."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return [compact(v) for v in value.values()]
    return [compact(v) for v in value] if isinstance(value, list) else value


def write(rows, folder):
    """Write a folder for `scripts/keep-record`."""
    kept = {kind: {"columns": KEPT[kind], "rows": [[compact(r.get(c)) for c in KEPT[kind]] for r in rows[kind]]} for kind in KEPT}
    records.write(
        folder, SCHEMA, "Is `corun verify` right about runs, benchmarks and tests?", CORUN, facts(rows), kept,
        [f"bench/verify.py {kind}" for kind in KEPT],
        "`result.json` has every run, of this session and of those before it. What each kind of run is, and how its truth is known, the "
        "files in `bench/verdicts` say.")
