#!/usr/bin/env python3
"""Virtual machines on this machine, as in ARMS-CC'16: as root, with QEMU, cc and one of Debian's kernels.

    bench/vms.py moves  --out FILE        who is moved between CPUs, with two, three and four VMs
    bench/vms.py pairs  --out FILE        how much each VM loses next to each other one: a CPU each, and two on a CPU
    bench/vms.py lock   --out FILE        a guest whose threads spin for a lock, with and without `corun control`
    bench/vms.py record FILE... --out DIR a record for scripts/keep-record

A piece boots its guests (some ten seconds), takes one to two minutes and appends a line of JSON per VM and situation to FILE; so pieces add up.
`CORUN` names the program, else target/release/corun is taken.

Guests are emulated (TCG), with a thread of QEMU for each virtual CPU. They have a kernel and bench/vms/guest.c, nothing else. What a VM gets done
is its own count, which it writes to its console and which is read by this machine's clock. Everything else is from `corun profile --vm`.
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
