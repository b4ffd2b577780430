"""Runs without a loss, and runs that a neighbor slows down: the verdict of `corun verify` on each.

Truth. None of it comes from corun. The CPU time of others on a run's CPUs comes from the account of the root cgroup, which has every nanosecond
of every CPU. The time of corun and of the kernel's own threads is separate, since verify blames neither. The loss of a run is the least of the
following, so that no run counts as slowed down without proof:

- how much longer it took than the same command just before, alone;
- the same for its CPU time: the work is the same, but takes more or less CPU time when the host changes its speed;
- for a program that computes on one thread: the share of its time off a CPU, minus that share alone;
- how long others than corun and the kernel had its CPUs. A run cannot lose more to them.

Shares are of the whole run that verify judges, including the reading of the accounts. A run is

- `idle`: alone, and others than corun and the kernel had its CPUs for at most 2 % of the run, the limit of verify; or its length is set by
  its own clock, and it took no longer than that;
- `harmless`: next to a neighbor that cannot or did not cost it anything: on another CPU, or in the time in which the program sleeps, waits
  for its next turn or for another program, or is stopped by its own quota;
- `costly`: next to a neighbor, with a loss of at least 5 % of its time;
- `neither`: all others, such as runs with a loss to others than the neighbor, or with a neighbor that came too late.

An alarm is a verdict `disturbed` on an idle or harmless run. A miss is a verdict `clean` on a costly one.
"""
import json, os, random, subprocess, sys, time
from .kit import Neighbour, compiler, in_turns, pace, spin, verified, witness, work

ALLOWED, NOTICEABLE = 0.02, 0.05
# Without a neighbor a program takes at most this much longer than the last time.
REPEATS = 0.03
SHORTEST, LONGEST = 0.05, 10.0
PERIOD_US, QUOTA = 20_000, 0.3

COMPUTES = "import sys\nn = int(sys.argv[1])\nx = 0\nwhile n:\n    n -= 1\n    x += n & 7\n"
PACED = """
import sys, time
turns, loops = int(sys.argv[1]), int(sys.argv[2])
at = time.monotonic()
for _ in range(turns):
    at += 0.02
    n = loops
    while n:
        n -= 1
    time.sleep(max(0.0, at - time.monotonic()))
"""
CLIENT = """
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
for _ in range(int(sys.argv[2])):
    s.sendall(b"?")
    s.recv(1)
"""


def server(path):
    """Answer each request after 5 ms of computing."""
    import socket
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen()

    def run():
        while True:
            peer, _ = listening.accept()
            while peer.recv(1):
                end = time.thread_time() + 0.005
                while time.thread_time() < end:
                    pass
                peer.sendall(b"!")
    return run


def length():
    """Draw a length of 50 ms to 10 s. Short ones are more frequent, so that a thousand runs take minutes; one in eight exceeds a second."""
    return SHORTEST * (LONGEST / SHORTEST) ** (random.random() ** 4)


class Quota:
    """A new cgroup that may use 30 % of a CPU. `None` without such a controller."""

    def __init__(self, name):
        v1, v2 = f"/sys/fs/cgroup/cpu/{name}", f"/sys/fs/cgroup/{name}"
        self.path = v1 if os.path.isdir("/sys/fs/cgroup/cpu") else v2
        os.makedirs(self.path, exist_ok=True)
        quota = round(QUOTA * PERIOD_US)
        if self.path == v1:
            self.write("cpu.cfs_period_us", PERIOD_US)
            self.write("cpu.cfs_quota_us", quota)
        else:
            self.write("cpu.max", f"{quota} {PERIOD_US}")

    def write(self, name, value):
        with open(f"{self.path}/{name}", "w") as file:
            file.write(str(value))

    def inside(self, command):
        return ["sh", "-c", f"echo $$ >{self.path}/cgroup.procs; exec \"$@\"", "sh", *command]

    def remove(self):
        for _ in range(50):
            try:
                return os.rmdir(self.path)
            except OSError:
                time.sleep(0.1)


class Programs:
    """Return commands that take about this many seconds, by name. `of_one_thread`: those that always compute, on one thread."""

    of_one_thread = ("computes", "python")

    def __init__(self, folder, cpu):
        self.loops = pace(cpu)
        self.pinned = ["taskset", "-c", str(cpu)]
        self.folder = folder
        self.a_fork = self.timed(["sh", "-c", "i=0; while [ $i -lt 200 ]; do env true; i=$((i+1)); done"]) / 200
        self.a_loop = (self.timed(self.python(600_000)) - self.timed(self.python(0))) / 600_000
        with open(f"{folder}/data", "wb") as file:
            for name in (sys.executable, "/usr/bin/cc", "/usr/bin/perl", "/bin/bash"):
                if os.path.exists(name):
                    with open(name, "rb") as program:
                        file.write(program.read(2 << 20))
        self.a_byte = self.timed(self.compress(4 << 20)) / (4 << 20)
        self.quota = Quota(f"corun-bench-{os.getpid()}")
        # Take the shortest of many, since others may run now.
        short = {name: min(self.timed(self.make(name, 0.1, 1)) for _ in range(4)) for name in ("sleeps", "paced")}
        self.to_begin = {name: wall - 0.1 for name, wall in short.items()}

    def timed(self, command):
        walls = []
        for _ in range(3):
            begin = time.monotonic()
            subprocess.run(self.pinned + command, stdout=subprocess.DEVNULL, check=True)
            walls.append(time.monotonic() - begin)
        return min(walls)

    def python(self, n):
        return [sys.executable, "-S", "-c", COMPUTES, str(n)]

    def compress(self, n):
        return ["sh", "-c", f"while cat {self.folder}/data; do :; done 2>/dev/null | head -c {n} | gzip -c | wc -c"]

    def make(self, name, seconds, cpus):
        ms = 1e3 * seconds
        each = ms if cpus > 1 else ms / 2
        return {
            "computes": lambda: work(self.loops, ms),
            "python": lambda: self.python(round(seconds / self.a_loop)),
            "two threads": lambda: work(self.loops, each, 2),
            "barrier": lambda: work(self.loops, each, 2, "barrier", "block"),
            "spinning barrier": lambda: work(self.loops, each, 2, "barrier", "spin"),
            "shell": lambda: ["sh", "-c", f"i=0; while [ $i -lt {max(1, round(seconds / self.a_fork))} ]; do env true; i=$((i+1)); done"],
            "compressor": lambda: self.compress(round(seconds / self.a_byte)),
            "two jobs": lambda: ["sh", "-c", '"$@" & "$@"; wait', "sh", *work(self.loops, each)],
            "sleeps": lambda: ["sh", "-c", "".join(f"sleep {seconds / 4:.3f}; env true; " for _ in range(4))],
            "paced": lambda: [sys.executable, "-S", "-c", PACED, str(max(2, round(seconds / 0.02))), str(round(0.003 / self.a_loop))],
            "client": lambda: [sys.executable, "-S", "-c", CLIENT, f"{self.folder}/server", str(max(2, round(seconds / 0.005)))],
            "quota": lambda: self.quota.inside(work(self.loops, max(1, QUOTA * ms))),
        }[name]()


    def by_the_clock(self, name, seconds, cpu_s):
        """Return the length of a program whose length a clock sets: its sleeps, its turns, its quota. `None` for other programs."""
        if name == "quota":
            return cpu_s / QUOTA
        nominal = {"sleeps": lambda: 4 * round(seconds / 4, 3), "paced": lambda: 0.02 * max(2, round(seconds / 0.02))}
        return nominal[name]() + self.to_begin[name] if name in nominal else None


def beside(kind, seconds, folder):
    """Return the neighbor with this name."""
    return {
        "a loop": lambda: in_turns(1e9, 0),
        "half of the time": lambda: in_turns(0.01, 0.01),
        "a fifth of the time": lambda: in_turns(0.004, 0.016),
        "a burst": lambda: burst(seconds, f"{folder}/begins"),
        "a compiler": lambda: compiler(folder),
    }[kind]()


def burst(seconds, begins):
    """Busy once for a quarter of the run's length, at some time in it."""

    def run():
        with open(begins, "rb") as pipe:
            pipe.read(1)
        time.sleep(0.75 * seconds * random.random())
        spin(max(0.05, seconds / 4))
        time.sleep(3600)
    return run


# Programs on one CPU, together with verify; and programs on the whole machine, pinned (to the first CPU) or not.
ON_ONE = ["computes", "python", "two threads", "barrier", "shell", "compressor", "sleeps", "paced", "quota"]
ON_TWO = ["computes", "python", "two threads", "barrier", "spinning barrier", "shell", "compressor", "two jobs"]
PINNED = ["computes", "python", "shell", "compressor", "sleeps", "paced", "client", "quota"]
SLEEPERS = ("sleeps", "paced", "client", "quota")
# After a solo run, this many neighbors in turn: half of the runs should be slowed down, and not every neighbor does that.
EACH = 2
NEIGHBOURS = ["a loop", "half of the time", "a fifth of the time", "a burst", "a compiler"]


class Piece:
    """Runs on some CPUs. Activity on other CPUs does not concern them."""

    def __init__(self, folder, cpus, watcher_on=None, servers=()):
        self.folder, self.cpus, self.watcher_on, self.servers = folder, cpus, watcher_on, servers
        self.programs = Programs(folder, cpus[0])
        self.witness = witness(folder)
        os.environ["WITNESS_TELLS"] = f"{folder}/begins"
        os.mkfifo(os.environ["WITNESS_TELLS"])

    def run(self, name, placed, seconds, command, neighbours=()):
        """Return verify's verdict, and the witness's measurement."""
        seen = f"{self.folder}/w.json"
        os.environ["WITNESS_PIDS"] = ",".join(str(n.child) for n in [*neighbours, *self.servers])
        said = verified(self.folder, [], [self.witness, seen, *command], self.watcher_on)
        with open(seen) as file:
            saw = json.load(file)
        os.remove(seen)
        usage = lambda cpus: sum(saw["usage_ns"][cpu] for cpu in cpus)
        reach = self.cpus[:1] if placed == "pinned" else self.cpus
        kernel_ns = saw["kernel_ns"] if len(self.cpus) == len(saw["usage_ns"]) else sum(saw["bound_ns"][cpu] for cpu in self.cpus)
        # Each of these is at least the time of others than corun, the kernel and the neighbors on the run's CPUs.
        others = [usage(self.cpus) - saw["cpu_ns"] - saw["corun_ns"] - kernel_ns - saw["neighbours_ns"]]
        if placed == "pinned":
            others.append(usage(reach) - saw["cpu_ns"])
        if name in self.programs.of_one_thread:
            others.append(saw["wall_ns"] - saw["cpu_ns"])
        nominal = self.programs.by_the_clock(name, seconds, saw["cpu_ns"] / 1e9)
        culprits = said["culprits"]
        of_run = lambda ns: round(ns / saw["life_ns"], 4)
        return {
            "wall_ms": round(saw["wall_ns"] / 1e6, 1), "cpu_ms": round(saw["cpu_ns"] / 1e6, 1), "life_ms": round(saw["life_ns"] / 1e6, 1),
            # Verify's run also includes the time before the witness began.
            "others": of_run(min(others) + saw["delay_ns"]),
            # At least the time of others than corun and the kernel.
            "had": of_run(usage(reach) - saw["cpu_ns"] - saw["corun_ns"] - saw["kernel_ns"]),
            "neighbours": of_run(saw["neighbours_ns"]), "kernel": of_run(saw["kernel_ns"]), "corun": of_run(saw["corun_ns"]),
            "longer": nominal and of_run(saw["wall_ns"] - nominal * 1e9),
            "off_cpu": round(1 - saw["cpu_ns"] / saw["wall_ns"], 4),
            "watcher": of_run(said["watcher_ns"] or 0),
            "corunners": of_run(said["corunners_ns"]),
            "status": said["exit_status"],
            "said": said["verdict"], "doubt": said["doubt"], "disturbance": round(said["disturbance"], 4),
            "culprit": culprits[0]["tenant"] if culprits else None,
        }

    def lost(self, name, alone, next_to):
        """Return the least share of a run that was lost, and how much longer it took."""
        longer_ms = next_to["wall_ms"] - alone["wall_ms"]
        lost_ms = [longer_ms]
        # A spinning program computes more while it waits, and a sleeping one hardly computes.
        if name not in (*SLEEPERS, "spinning barrier"):
            lost_ms.append(next_to["wall_ms"] - alone["wall_ms"] * next_to["cpu_ms"] / alone["cpu_ms"])
        if name in self.programs.of_one_thread:
            lost_ms.append((next_to["off_cpu"] - alone["off_cpu"]) * next_to["wall_ms"])
        lost = min(min(lost_ms) / next_to["life_ms"], next_to["had"])
        return round(lost, 4), longer_ms / next_to["life_ms"]

    def is_spared(self, run):
        """Return whether others cannot have cost the run more than verify allows."""
        return run["others"] <= ALLOWED or run["longer"] is not None and run["longer"] <= ALLOWED

    def group(self, name, placed, seconds, command, neighbours, cannot_cost):
        """Run alone, and next to each of these neighbors in turn, which are started when needed."""
        what = {"program": name, "on": placed, "length_s": round(seconds, 3)}
        alone = self.run(name, placed, seconds, command)
        is_idle = self.is_spared(alone)
        yield {**what, "beside": None, "truth": "idle" if is_idle else "neither", **alone}
        for kind, make in neighbours.items() if is_idle else ():
            started = [neighbour() for neighbour in make]
            try:
                time.sleep(0.05)
                next_to = self.run(name, placed, seconds, command, started)
            finally:
                for neighbour in started:
                    neighbour.__exit__()
            lost, longer = self.lost(name, alone, next_to)
            # If only the clock shows the loss, it must be larger, since no two runs take the same time.
            slack = 0.0 if name in self.programs.of_one_thread else REPEATS
            if cannot_cost or (name in SLEEPERS and longer <= ALLOWED / 2):
                truth = "harmless" if self.is_spared(next_to) else "neither"
            else:
                truth = "costly" if lost - slack >= NOTICEABLE else "neither"
            yield {**what, "beside": kind, "truth": truth, "lost": lost, **next_to}

    def on_one(self, cpu):
        """Program, neighbor and verify on one CPU. Other pieces run on other CPUs."""
        name, seconds = random.choice(ON_ONE), length()
        if name == "quota":
            seconds = max(seconds, 0.5)
        kinds = ["a loop"] if name in SLEEPERS else random.sample(NEIGHBOURS, EACH)
        command = ["taskset", "-c", str(cpu), *self.programs.make(name, seconds, 1)]
        neighbours = {kind: [lambda kind=kind: Neighbour(cpu, beside(kind, seconds, self.folder))] for kind in kinds}
        yield from self.group(name, "one CPU", seconds, command, neighbours, False)

    def on_all(self, cpu, other):
        """A program that may run anywhere, or is pinned next to a neighbor on its CPU or on the other one."""
        seconds = length()
        loop = lambda on, kind: lambda: Neighbour(on, beside(kind, seconds, self.folder))
        if random.random() < 0.5:
            name, neighbours = random.choice(ON_TWO), {}
            command = self.programs.make(name, seconds, 2)
            for kind in random.sample(NEIGHBOURS, EACH):
                # A program with one thread evades one neighbor, so it has two.
                on_both = name in self.programs.of_one_thread or random.random() < 0.5
                neighbours[f"{kind} on {'both CPUs' if on_both else 'one CPU'}"] = \
                    [loop(on, kind) for on in ([cpu, other] if on_both else [cpu])]
            return self.group(name, "any CPU", seconds, command, neighbours, False)
        name = random.choice(PINNED)
        if name == "quota":
            seconds = max(seconds, 0.5)
        command = ["taskset", "-c", str(cpu), *self.programs.make(name, seconds, 1)]
        # The client's server is on the other CPU.
        if name == "client" or name in SLEEPERS and random.random() < 0.5:
            return self.group(name, "pinned", seconds, command, {"a loop": [loop(cpu, "a loop")]}, False)
        return self.group(name, "pinned", seconds, command, {"a loop on the other CPU": [loop(other, "a loop")]}, True)


def on_one_cpu(until, folder, cpu):
    """Groups of runs on one CPU. Such pieces can be made on several CPUs at a time."""
    piece = Piece(folder, [cpu], cpu)
    try:
        while time.monotonic() < until:
            yield from piece.on_one(cpu)
    finally:
        piece.programs.quota.remove()


def on_all_cpus(until, folder, cpu, other):
    """Groups of runs that use the whole machine."""
    with Neighbour(other, server(f"{folder}/server")) as answers:
        piece = Piece(folder, [cpu, other], servers=[answers])
        try:
            while time.monotonic() < until:
                yield from piece.on_all(cpu, other)
        finally:
            piece.programs.quota.remove()
