"""The places of a program: solo, next to others, under a quota, with half of the weight of its neighbors."""
import contextlib, os, signal, subprocess, sys, time

CPUS = len(os.sched_getaffinity(0))
TARGET = os.path.join(os.environ.get("CARGO_TARGET_DIR", "target"), "release")
LOOP = "while True: pass"
# Busy and idle in turn, 300 ms each.
COMES_AND_GOES = """
import time
while True:
    end = time.monotonic() + 0.3
    while time.monotonic() < end: pass
    time.sleep(0.3)
"""


class Cgroup:
    """A new cgroup with a setting of the CPU controller, version 2 or 1."""

    def __init__(self, name, weight=None, quota=None):
        root = "/sys/fs/cgroup"
        is_new = os.path.exists(f"{root}/cgroup.controllers")
        if is_new:
            with contextlib.suppress(OSError):
                self.put(f"{root}/cgroup.subtree_control", "+cpu")
        self.folder = f"{root}{'' if is_new else '/cpu'}/corun-adapt-{name}-{os.getpid()}"
        os.mkdir(self.folder)
        if weight:
            self.put(f"{self.folder}/cpu.{'weight' if is_new else 'shares'}", weight if is_new else weight * 1024 // 100)
        if quota:
            text = f"{int(quota * 100_000)} 100000" if is_new else int(quota * 100_000)
            self.put(f"{self.folder}/cpu.{'max' if is_new else 'cfs_quota_us'}", text)

    @staticmethod
    def put(path, value):
        with open(path, "w") as file:
            file.write(str(value))

    def enter(self):
        self.put(f"{self.folder}/cgroup.procs", os.getpid())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # The kernel may take a moment to notice that the cgroup is empty.
        for _ in range(100):
            with contextlib.suppress(OSError):
                return os.rmdir(self.folder)
            time.sleep(0.01)


def as_idle():
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


@contextlib.contextmanager
def neighbours(count, code=LOOP, before=None, are_others=True):
    """Run `count` programs until the end of the context. The context is a list that then gets their CPU seconds.

    With `are_others` they have their own sessions, as programs of other users: under autogroup sessions share the CPUs.
    """
    used = []
    started = [subprocess.Popen([sys.executable, "-c", code], preexec_fn=before, start_new_session=are_others) for _ in range(count)]
    try:
        # By now Python has started.
        time.sleep(0.15 if count else 0)
        yield used
    finally:
        for child in started:
            child.send_signal(signal.SIGKILL)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = status
            used.append(usage.ru_utime + usage.ru_stime)


@contextlib.contextmanager
def place(name):
    """Set up a place. The context is what the program's process does first, or `None`, and the list for its neighbors' CPU seconds."""
    if name == "quota of half":
        with Cgroup("quota", quota=CPUS / 2) as own, neighbours(0) as used:
            yield own.enter, used
    elif name == "half weight":
        with Cgroup("half", weight=50) as own, Cgroup("whole", weight=100) as others, neighbours(CPUS, before=others.enter) as used:
            yield own.enter, used
    else:
        of = {"alone": (0,), "one loop": (1,), "two loops": (2,), "comes and goes": (1, COMES_AND_GOES), "idle loops": (CPUS, LOOP, as_idle)}
        with neighbours(*of[name]) as used:
            yield None, used


PLACES = ["alone", "one loop", "two loops", "quota of half", "half weight", "comes and goes", "idle loops"]
