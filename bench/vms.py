#!/usr/bin/env python3
"""Measure virtual machines on this machine, as in ARMS-CC'16. Needs root, QEMU, cc and a Debian kernel.

    bench/vms.py moves  --out FILE        moves between CPUs, with two, three and four VMs
    bench/vms.py pairs  --out FILE        the loss of each VM next to each other one: a CPU each, and two on a CPU
    bench/vms.py lock   --out FILE        a guest whose threads spin for a lock, with and without `corun control`
    bench/vms.py record FILE... --out DIR a record for scripts/keep-record

A piece boots its guests (about ten seconds), takes one to two minutes, and appends a line of JSON per VM and situation to FILE, so pieces add up.
`CORUN` names the program (default: target/release/corun).

Guests are emulated (TCG), with a thread of QEMU for each virtual CPU. They contain only a kernel and bench/vms/guest.c. A VM writes a count of
its work to its console, and this machine's clock gives the times. Everything else comes from `corun profile --vm`.
"""
import argparse, json, os, signal, sys, tempfile
import records
from vms import pieces, record
from vms.guests import Kit


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["moves", "pairs", "lock", "record"])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    if args.kind == "record":
        return record.write(records.read(args.files), args.out)
    with tempfile.TemporaryDirectory() as folder, open(args.out, "a") as file:
        for row in getattr(pieces, args.kind)(Kit(folder)):
            file.write(json.dumps({"kind": args.kind, **row}) + "\n")
            file.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
