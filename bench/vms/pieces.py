"""The runs: a piece is a generator of rows."""
import contextlib, itertools, os
from .guests import CORUN, Guest, situation

# Integers in registers, memory, threads that wake each other up, and one that sleeps half of its time: two only compute, and two
# synchronize.
PROGRAMS = ["hash", "walk", "pass", "nap"]
CPUS = sorted(os.sched_getaffinity(0))[:2]
SECONDS = 4


@contextlib.contextmanager
def booted(kit, wanted):
    """Boot guests with these names, programs and virtual CPUs. Returns when all of them work."""
    with contextlib.ExitStack() as stack:
        guests = [stack.enter_context(Guest(kit, *of)) for of in wanted]
        yield [guest.booted() for guest in guests]


def moves(kit, seconds=25):
    """Run as many VMs as CPUs, and up to twice as many, without pinning."""
    with booted(kit, [(f"vm{n}-{program}", program) for n, program in enumerate(["hash", "walk", "hash", "walk"])]) as guests:
        for count in (2, 3, 4):
            for row in situation(kit, guests, guests[:count], seconds):
                yield {"vms": count, **row}


def pairs(kit):
    """Run each VM alone, each pair with a CPU for each, and all four with two on each CPU: in the three possible ways, and not pinned."""
    with booted(kit, [(f"vm-{program}", program) for program in PROGRAMS]) as guests:
        for guest in guests:
            guest.pin([CPUS[0]])
            yield from ({"situation": "alone", "beside": [], **row} for row in situation(kit, guests, [guest], SECONDS))
        for one, other in itertools.combinations(guests, 2):
            one.pin([CPUS[0]])
            other.pin([CPUS[1]])
            for row in situation(kit, guests, [one, other], SECONDS):
                beside = other if row["vm"] == one.name else one
                yield {"situation": "a CPU each", "beside": [beside.program], **row}
        first, rest = guests[0], guests[1:]
        for partner in rest:
            on_cpu = {CPUS[0]: [first, partner], CPUS[1]: [g for g in rest if g is not partner]}
            for cpu, two in on_cpu.items():
                for guest in two:
                    guest.pin([cpu])
            for row in situation(kit, guests, guests, SECONDS):
                two = next(two for two in on_cpu.values() if row["vm"] in [g.name for g in two])
                yield {"situation": "two on a CPU", "beside": [g.program for g in two if g.name != row["vm"]], **row}
        for guest in guests:
            guest.pin(CPUS)
        for row in situation(kit, guests, guests, SECONDS):
            yield {"situation": "not pinned", "beside": [p for p in PROGRAMS if p != row["program"]], **row}


def lock(kit, seconds=8):
    """Run a guest with two virtual CPUs and a lock, next to one that computes on two: alone, under the kernel, and under policies."""
    with booted(kit, [("vm-lock", "lock", 2), ("vm-other", "hash", 2)]) as guests:
        locks, other = guests
        tenants = [flag for guest in guests for flag in ("--tenant", str(guest.process.pid))]
        control = [CORUN, "control", "gang", *tenants, "--guard", "off", "-q", "--for", f"{seconds + 30}s"]
        yield from ({"policy": "alone", **row} for row in situation(kit, guests, [locks], seconds))
        yield from ({"policy": "alone", **row} for row in situation(kit, guests, [other], seconds))
        for _ in range(2):
            for policy, command in (("none", None), ("gang", control)):
                yield from ({"policy": policy, **row} for row in situation(kit, guests, guests, seconds, command))
