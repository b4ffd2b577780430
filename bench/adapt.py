#!/usr/bin/env python3
"""Measure programs that adapt, and the simulation engine, on this machine. Needs root, a quiet machine and gcc.

    bench/adapt.py cells   --out FILE   programs with fixed numbers of threads and adaptive, solo and next to others
    bench/adapt.py engine  --out FILE   the engine with fixed mapping and with LADM, next to busy loops
    bench/adapt.py reaction --out FILE  how soon a program's width changes when a busy neighbor comes or goes
    bench/adapt.py ross    --out FILE   one thread compared with one of ROSS (`ROSS_PHOLD` names its PHOLD), by CPU time, so a busy machine is fine
    bench/adapt.py joint   --out FILE   the engine next to another parallel program, with and without `corun control`
    bench/adapt.py record FILE... --out DIR   a record for scripts/keep-record

A piece makes every run once, in turn, and appends a line of JSON for each to FILE. So pieces add up, and compared runs are seconds apart.
`--only WORD` runs the programs whose names contain the word. Programs that are not installed are left out, with a message. scikit-learn, LightGBM
and ggml belong to the Python in `ADAPT_PYTHON`. The record also reads older records, such as `studies/runs/adapt/result.json.gz`. First build:

    cargo build --release -p corun -p corun-preload --lib --bins --examples && cargo build --release -p corun-pdes --examples
"""
import argparse, json, sys, tempfile
import records
from adapting import cells, engines, joint, reaction, record

PIECES = {"cells": cells.cells, "engine": engines.engine, "reaction": reaction.reaction, "ross": engines.ross, "joint": joint.joint}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=[*PIECES, "record"])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--out", required=True)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    if args.kind == "record":
        return record.write(records.read(args.files), args.out)
    with tempfile.TemporaryDirectory() as folder, open(args.out, "a") as file:
        for row in PIECES[args.kind](folder, args.only):
            file.write(json.dumps({"kind": args.kind, **row}) + "\n")
            file.flush()


if __name__ == "__main__":
    sys.exit(main())
