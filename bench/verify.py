#!/usr/bin/env python3
"""Measure how often `corun verify` is right, and its cost. Needs root, hyperfine, cc and two CPUs.

    bench/verify.py runs     --for 90 --out FILE   runs without a loss, and runs that a neighbor slows down
    bench/verify.py gate     --for 90 --out FILE   pairs of a benchmark, equal or 5 % apart, under injected noise
    bench/verify.py labels   --for 90 --out FILE   tests ended by a time-out, some of them starved
    bench/verify.py overhead --for 90 --out FILE   programs bare and under `corun verify`, in turn
    bench/verify.py summary  FILE...               counts, with exact bounds (Clopper-Pearson, 95 %)
    bench/verify.py record   FILE... --out DIR     a record for scripts/keep-record

A piece ends after the time in `--for`, and appends a line of JSON per run to FILE, so pieces add up. So do kept records, such as
studies/runs/verify-bench/result.json.gz: a record of that and of new pieces has the runs of both, each with its version. `CORUN` names the program
(default: target/release/corun). `runs` takes two thirds of its time for programs on one CPU, on both CPUs at once, and the rest for programs
that use the whole machine. All other kinds use the whole machine, since corun on the CPU of a short iteration would show in it.

The truth comes from the actions of the script, from clocks and from the kernel; each file in bench/verdicts explains it. None comes from corun.
"""
import argparse, json, os, signal, sys, tempfile, time
import records
from verdicts import gate, labels, overhead, record, runs
from verdicts.kit import lanes, version

CPU, OTHER = 0, 1


def write(kind, rows, out):
    """Write a line for each row. Several processes may write at a time."""
    of_all = {"kind": kind, "version": version(), "machine": records.machine(), "day": time.strftime("%Y-%m-%d", time.gmtime())}
    with open(out, "a") as file:
        for row in rows:
            file.write(json.dumps({**of_all, **row}) + "\n")
            file.flush()


def on_both(kind, rows, until, out):
    """Make a piece on each CPU at once, in separate folders."""

    def lane(cpu):
        with tempfile.TemporaryDirectory() as folder:
            write(kind, rows(until, folder, cpu), out)
    lanes(lane, [CPU, OTHER])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["runs", "gate", "labels", "overhead", "summary", "record"])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--for", dest="seconds", type=float, default=90)
    parser.add_argument("--out")
    args = parser.parse_args()
    if args.kind == "summary":
        return print(record.summary(record.read(args.files)), end="")
    if not args.out:
        parser.error("--out says where it goes")
    if args.kind == "record":
        return record.write(record.read(args.files), args.out)
    begin, out = time.monotonic(), os.path.abspath(args.out)
    until = begin + args.seconds
    with tempfile.TemporaryDirectory() as folder:
        if args.kind == "runs":
            on_both("runs", runs.on_one_cpu, begin + args.seconds * 2 / 3, out)
            write("runs", runs.on_all_cpus(until, folder, CPU, OTHER), out)
        elif args.kind == "gate":
            write("gate", gate.rows(until, folder, CPU), out)
        elif args.kind == "labels":
            write("labels", labels.rows(until, folder, CPU, OTHER), out)
        else:
            write("overhead", overhead.rows(until, folder, CPU), out)
    print(record.summary(record.read([out])), end="")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
