#!/usr/bin/env python3
"""How often `corun verify` is right about benchmarks and tests, and what it costs: as root, with hyperfine.

    bench/verify.py gate     --for 90 --out FILE   pairs of a benchmark, equal or 5 % apart, under injected noise
    bench/verify.py labels   --for 90 --out FILE   tests ended by a time-out, some of them starved
    bench/verify.py overhead --for 90 --out FILE   a program bare and under `corun verify`, in turn
    bench/verify.py summary  FILE...               counts, with exact 95 % upper bounds (Clopper-Pearson)

A piece ends by itself after the time that `--for` gives, and appends a line of JSON per run to FILE; so pieces add up. Two CPUs are
needed. `CORUN` names the program, else target/release/corun is taken.

Truth. `gate`: both commands of an equal pair do the same work; noise is injected by loops that are pinned to the benchmark's CPU, in
turns of several lengths. `labels`: a test is starved if a loop held its CPU while it ran, so that it needed twice its time; a test that
is not starved sleeps, or has more work than fits into its time, and a loop runs on the other CPU. `overhead`: the program measures
itself.
"""
import argparse, collections, json, math, os, random, signal, statistics, subprocess, sys, tempfile, time

CORUN = os.environ.get("CORUN") or "target/release/corun"
CPU, OTHER = 0, 1
RETRIES, ITERATIONS, MS_OF_WORK = 4, 8, 60
NOISE = {  # seconds busy, seconds idle; the compiler is a real one
    "none": None, "persistent": (1e9, 0), "periodic": (0.3, 0.3), "intermittent": (0.2, 0.8), "compiler": "cc"}
SOURCE = "".join(f"int f{n}(int x) {{ int s = 0; for (int i = 0; i < x; i++) s += i * {n}; return s; }}\n" for n in range(400))


def pace():
    """What the calibration of `corun load` says a millisecond of work is."""
    out = subprocess.run([CORUN, "load", "persistent", "--duration", "300ms", "--json", "-", "-q"],
                         stdout=subprocess.PIPE, check=True)
    return json.loads(out.stdout)["calibration"]["loops_per_ms"]


def work(loops, ms):
    """A command of one thread that computes for so long."""
    return [CORUN, "load", "parallel", "--threads", "1", "--sync", "none", "--grain", "1ms",
            "--iterations", str(round(ms)), "--loops-per-ms", str(loops), "-q"]


class Noise:
    """A loop, or a compiler, on one CPU: all the time, or in turns."""

    def __init__(self, kind, cpu, folder):
        self.child = None
        if NOISE[kind] is None:
            return
        self.child = os.fork()
        if self.child == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.setsid()
            os.sched_setaffinity(0, [cpu])
            if NOISE[kind] == "cc":
                with open(f"{folder}/a.c", "w") as file:
                    file.write(SOURCE)
                while True:
                    subprocess.run(["cc", "-O2", "-c", f"{folder}/a.c", "-o", f"{folder}/a.o"], check=False)
                    time.sleep(random.random())
            busy, idle = NOISE[kind]
            time.sleep(random.random() * min(idle, 1))
            while True:
                end = time.monotonic() + busy * random.uniform(0.5, 1.5)
                while time.monotonic() < end:
                    pass
                time.sleep(idle * random.uniform(0.5, 1.5))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.child:
            os.killpg(self.child, signal.SIGKILL)
            os.waitpid(self.child, 0)


def verified(folder, flags, command):
    """What verify says of a command, as its JSON."""
    out = f"{folder}/v.json"
    if os.path.exists(out):
        os.remove(out)
    subprocess.run([CORUN, "verify", "-q", "--json", out, *flags, "--", *command],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    with open(out) as file:
        return json.load(file)


def gate(until, folder):
    loops = pace()
    kinds = list(NOISE)
    number = 0
    while time.monotonic() < until:
        kind, slower = kinds[number % len(kinds)], 1.05 if number // len(kinds) % 2 else 1.0
        number += 1
        measured = []
        for factor in (1.0, slower):
            bench = ["taskset", "-c", str(CPU), "hyperfine", "-N", "-r", str(ITERATIONS), "--style", "none",
                     "--export-json", f"{folder}/b.json", " ".join(work(loops, MS_OF_WORK * factor))]
            with Noise(kind, CPU, folder):
                said = verified(folder, ["--results", f"{folder}/b.json", "--retries", str(RETRIES)], bench)
            of = said["benchmarks"][0]
            measured.append({key: of[key] for key in ("raw", "cleaned", "disturbed", "unclear", "wanted")})
        yield {"noise": kind, "slower": slower, "tries": len(said["tries"]), "pair": measured}


# A test runner of one file: every test is a command with a time limit, and what it does to the loop next to it is known to it alone.
RUNNER = """
import datetime, json, os, signal, subprocess, sys, time
loop, tests, out = int(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
cases = []
for name, starve, limit, command in tests:
    os.kill(loop, signal.SIGCONT if starve else signal.SIGSTOP)
    at, begin = datetime.datetime.now(datetime.timezone.utc).isoformat(), time.monotonic()
    try:
        subprocess.run(command, timeout=limit, check=False)
        failure = ""
    except subprocess.TimeoutExpired:
        failure = "<failure message='time-out'/>"
    took = time.monotonic() - begin
    os.kill(loop, signal.SIGSTOP)
    cases.append(f"<testcase name='{name}' timestamp='{at}' time='{took:.6f}'>{failure}</testcase>")
open(out, "w").write("<testsuites><testsuite name='s'>" + "".join(cases) + "</testsuite></testsuites>")
"""


def labels(until, folder):
    loops = pace()
    loop = Noise("persistent", CPU, folder)
    elsewhere = Noise("persistent", OTHER, folder)
    pinned = ["taskset", "-c", str(CPU)]

    def alone(ms):
        """What a test takes alone: the quickest of a few."""
        walls = []
        for _ in range(5):
            begin = time.monotonic()
            subprocess.run(pinned + work(loops, ms), stdout=subprocess.DEVNULL, check=True)
            walls.append(time.monotonic() - begin)
        return min(walls)

    os.kill(loop.child, signal.SIGSTOP)
    lengths = {ms: alone(ms) for ms in (60, 150, 400)}
    with loop, elsewhere:
        while time.monotonic() < until:
            tests = []
            for n in range(4):
                starve = random.random() < 0.5
                ms = random.choice(list(lengths))
                limit = 1.5 * lengths[ms]
                what = "computes" if starve else random.choice(["computes", "sleeps"])
                # A starved test would have made it; another one has too much to do, or waits for nothing.
                command = pinned + (work(loops, ms if starve else 4 * ms) if what == "computes" else ["sleep", "60"])
                tests.append((f"{n} {what}", starve, limit, command))
            said = verified(folder, ["--junit", f"{folder}/t.xml", "--policy", "neutral"],
                            [sys.executable, "-c", RUNNER, str(loop.child), json.dumps(tests), f"{folder}/t.xml"])
            failed = {t["name"]: t for t in said["failed_tests"]}
            for name, starve, limit, _ in tests:
                # One that was through in time says nothing: its load came too late.
                if name in failed:
                    yield {"starved": starve, "limit_s": limit, "test": name.split()[1],
                           "said": failed[name]["verdict"], "why": failed[name]["why"]}


def overhead(until, folder):
    loops = pace()
    own = f"{folder}/own.json"
    command = work(loops, 250) + ["--json", own]

    def took():
        with open(own) as file:
            return json.load(file)["wall_ns"]

    while time.monotonic() < until:
        walls = {}
        kinds = ["bare", "verify", "bare again"]
        for kind in random.sample(kinds, 3):
            if kind == "verify":
                verified(folder, [], command)
            else:
                subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
            walls[kind] = took()
        yield walls


def upper(count, of, confidence=0.95):
    """Clopper and Pearson's upper bound of a share, both sides together."""
    if count >= of:
        return 1.0
    tail = lambda p: sum(math.comb(of, k) * p**k * (1 - p)**(of - k) for k in range(count + 1))
    low, high = count / max(of, 1), 1.0
    for _ in range(60):
        mid = (low + high) / 2
        low, high = (mid, high) if tail(mid) > (1 - confidence) / 2 else (low, mid)
    return high


def share(count, of):
    return f"{count} of {of} (at most {100 * upper(count, of):.1f} %)" if of else "none"


def is_slower(pair, which):
    """A one-sided test of Welch's at 5 %: is the second slower? `None`: one has too few iterations."""
    a, b = pair[0][which], pair[1][which]
    if not a or not b or min(a["count"], b["count"]) < 3:
        return None
    va, vb = (x["deviation_s"] ** 2 / x["count"] for x in (a, b))
    if va + vb == 0:
        return b["mean_s"] > a["mean_s"]
    t = (b["mean_s"] - a["mean_s"]) / math.sqrt(va + vb)
    freedom = (va + vb) ** 2 / (va**2 / (a["count"] - 1) + vb**2 / (b["count"] - 1))
    # Student's t by the normal distribution (Wallace 1959): to a few thousandths from 3 degrees on.
    z = math.copysign((8 * freedom + 1) / (8 * freedom + 3) * math.sqrt(freedom * math.log(1 + t * t / freedom)), t)
    return z > statistics.NormalDist().inv_cdf(0.95)


def summary(files):
    rows = collections.defaultdict(list)
    for name in files:
        with open(name) as file:
            for line in file:
                row = json.loads(line)
                rows[row["kind"]].append(row)
    for noise in NOISE:
        pairs = [r for r in rows["gate"] if r["noise"] == noise]
        for slower, word in ((1.0, "false regressions"), (1.05, "of +5 % found")):
            of_kind = [r for r in pairs if r["slower"] == slower]
            for which in ("raw", "cleaned"):
                said = [is_slower(r["pair"], which) for r in of_kind]
                told = [s for s in said if s is not None]
                if said:
                    print(f"gate, {noise}, {which}: {word} {share(sum(told), len(told))}; "
                          f"too few iterations {len(said) - len(told)}")
        iterations = [m for r in pairs for m in r["pair"]]
        if iterations:
            of = sum(m["raw"]["count"] for m in iterations)
            print(f"iterations, {noise}: {of}, of these disturbed {sum(m['disturbed'] for m in iterations)}, "
                  f"unclear {sum(m['unclear'] for m in iterations)}")
    found = collections.Counter((r["starved"], r["test"], r["said"]) for r in rows["labels"])
    for (starved, test, said), count in sorted(found.items()):
        print(f"labels, {'starved' if starved else 'not starved'}, {test}: {said} {count}")
    if rows["labels"]:
        wrong = [r for r in rows["labels"] if (r["said"] == "starved") != r["starved"]]
        print(f"labels: not right {share(len(wrong), len(rows['labels']))}, "
              f"of these {sum(r['said'] == 'cannot tell' for r in wrong)} cannot tell")
    if rows["overhead"]:
        ratio = lambda kind: statistics.median(r[kind] / r["bare"] for r in rows["overhead"])
        print(f"overhead, {len(rows['overhead'])} rounds: under verify {100 * ratio('verify') - 100:+.2f} %, "
              f"bare again {100 * ratio('bare again') - 100:+.2f} % (medians)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["gate", "labels", "overhead", "summary"])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--for", dest="seconds", type=float, default=90)
    parser.add_argument("--out")
    args = parser.parse_args()
    if args.kind == "summary":
        return summary(args.files)
    if not args.out:
        parser.error("--out says where the runs go")
    with tempfile.TemporaryDirectory() as folder, open(args.out, "a") as out:
        for row in globals()[args.kind](time.monotonic() + args.seconds, folder):
            print(json.dumps({"kind": args.kind, **row}), file=out, flush=True)
    return summary([args.out])


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
