"""Common parts of all kinds: corun, work of a known length, neighbors, and a witness other than corun."""
import ctypes, json, os, random, signal, subprocess, sys, time

CORUN = os.path.abspath(os.environ.get("CORUN") or "target/release/corun")
HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = "".join(f"int f{n}(int x) {{ int s = 0; for (int i = 0; i < x; i++) s += i * {n}; return s; }}\n" for n in range(400))
DIES_WITH_ITS_PARENT = 1  # PR_SET_PDEATHSIG


def version():
    """Return the commit that last changed the program, with a `+` if the tree has changed it since; or else its own version."""
    git = lambda *argv: subprocess.run(["git", "-C", HERE, *argv, "--", ":/crates", ":/Cargo.lock"], stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, text=True, check=False).stdout.strip()
    commit = git("log", "-1", "--format=%h")
    if not commit:
        return subprocess.run([CORUN, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()[-1]
    return commit + ("+" if git("status", "--porcelain") else "")


def pace(cpu):
    """Return a millisecond of work, from the calibration of `corun load`."""
    out = subprocess.run(["taskset", "-c", str(cpu), CORUN, "load", "persistent", "--duration", "300ms", "--json", "-", "-q"],
                         stdout=subprocess.PIPE, check=True)
    return json.loads(out.stdout)["calibration"]["loops_per_ms"]


def work(loops, ms, threads=1, sync="none", wait=None):
    """Return a command that computes for this long on each of its threads."""
    return [CORUN, "load", "parallel", "--threads", str(threads), "--sync", sync, "--grain", "1ms", *(["--wait", wait] if wait else []),
            "--iterations", str(max(1, round(ms))), "--loops-per-ms", str(loops), "-q"]


class Neighbour:
    """A process on one CPU that runs `busy(self)` in a child until the context ends."""

    def __init__(self, cpu, busy):
        ready, begun = os.pipe()
        self.child = os.fork()
        if self.child == 0:
            ctypes.CDLL(None).prctl(DIES_WITH_ITS_PARENT, signal.SIGKILL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.setsid()
            os.sched_setaffinity(0, [cpu])
            os.close(begun)
            try:
                busy()
            finally:
                os._exit(0)
        # When this ends it leads its own session.
        os.close(begun)
        os.read(ready, 1)
        os.close(ready)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.killpg(self.child, signal.SIGKILL)
        os.waitpid(self.child, 0)


def spin(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def in_turns(busy, idle):
    """Busy and idle for these seconds, each varied by half. An endless loop if it is never idle."""

    def run():
        time.sleep(random.random() * min(idle, 1))
        while True:
            spin(busy * random.uniform(0.5, 1.5))
            time.sleep(idle * random.uniform(0.5, 1.5))

    def for_ever():
        while True:
            pass
    return run if idle else for_ever


def compiler(folder):
    def run():
        with open(f"{folder}/a.c", "w") as file:
            file.write(SOURCE)
        while True:
            subprocess.run(["cc", "-O2", "-c", f"{folder}/a.c", "-o", f"{folder}/a.o"], check=False)
            time.sleep(random.random())
    return run


def verified(folder, flags, command, cpu=None):
    """Return verify's JSON for a command. With `cpu`, corun itself runs on that CPU too."""
    out = f"{folder}/v.json"
    if os.path.exists(out):
        os.remove(out)
    pinned = [] if cpu is None else ["taskset", "-c", str(cpu)]
    subprocess.run([*pinned, CORUN, "verify", "-q", "--json", out, *flags, "--", *command],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    with open(out) as file:
        return json.load(file)


def witness(folder):
    """Compile a program that reports the clock's and the kernel's times of a command. Return its path."""
    path = f"{folder}/witness"
    subprocess.run(["cc", "-O2", "-Wall", "-o", path, f"{HERE}/witness.c"], check=True)
    return path


def lanes(run, cpus):
    """Run `run(cpu)` on all CPUs at once, in separate processes."""
    children = []
    for cpu in cpus:
        child = os.fork()
        if child == 0:
            ctypes.CDLL(None).prctl(DIES_WITH_ITS_PARENT, signal.SIGTERM)
            random.seed()
            status = 1
            try:
                run(cpu)
                status = 0
            except Exception as error:
                print(f"lane of CPU {cpu}: {error!r}", file=sys.stderr, flush=True)
            finally:
                os._exit(status)
        children.append(child)
    failed = [os.waitpid(child, 0)[1] for child in children]
    if any(failed):
        sys.exit("a lane failed")
