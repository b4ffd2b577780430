#!/usr/bin/env python3
"""Programs that adapt, and the simulation engine, on this machine: as root, on a quiet machine, with gcc.

    bench/adapt.py cells   --out FILE   programs with fixed numbers of threads and adaptive, alone and next to others
    bench/adapt.py engine  --out FILE   the engine with fixed mapping and with LADM, next to busy loops
    bench/adapt.py reaction --out FILE  how soon a program's width is another when a busy neighbour comes or goes
    bench/adapt.py ross    --out FILE   one thread next to one of ROSS, whose PHOLD `ROSS_PHOLD` names; by CPU time, so anybody may run, too
    bench/adapt.py joint   --out FILE   the engine next to another parallel program, with and without `corun control`
    bench/adapt.py record FILE... --out DIR   a record for scripts/keep-record

A piece does everything once, in turn, and appends a line of JSON for each run to FILE; so pieces add up, and what is compared is seconds apart.
`--only WORD` runs the programs whose names have the word. What is not installed is left out, and said. scikit-learn, LightGBM and ggml are those
of the Python that `ADAPT_PYTHON` names. The record takes older records, too, such as `studies/runs/adapt/result.json.gz`. Build before:

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
