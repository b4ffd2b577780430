"""Guests: builds, boots, stops and pins them, and reads their counts of work."""
import bisect, ctypes, json, os, shutil, signal, socket, subprocess, threading, time

CORUN = os.path.abspath(os.environ.get("CORUN") or "target/release/corun")
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# The parameters of guest/run, explained there. Stopped guests would complain about lost time.
with open(f"{ROOT}/guest/kernel-parameters") as file:
    KERNEL = f"{file.read().strip()} loglevel=3 nowatchdog rcupdate.rcu_cpu_stall_suppress=1"
BOOT_S = 90
DIES_WITH_ITS_PARENT = 1  # PR_SET_PDEATHSIG


def alone_in_death():
    """Call this in a child: it does not outlive the study, and becomes its own job."""
    ctypes.CDLL(None).prctl(DIES_WITH_ITS_PARENT, signal.SIGKILL)
    os.setsid()


class Kit:
    """Return the kernel, and an archive with the guests' only program."""

    def __init__(self, folder):
        self.folder = folder
        packages = subprocess.run([f"{ROOT}/guest/packages", "newest"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        self.kernel = f"{packages}/vmlinuz"
        with open(f"{packages}/release") as file:
            self.release = file.read().strip()
        root = f"{folder}/root"
        os.makedirs(f"{root}/dev")
        os.mknod(f"{root}/dev/console", 0o600 | 0o020000, os.makedev(5, 1))
        subprocess.run(["cc", "-O2", "-static", "-pthread", "-o", f"{root}/init", f"{HERE}/guest.c"], check=True)
        self.archive = f"{folder}/initrd"
        with open(self.archive, "w") as file:
            subprocess.run([f"{packages}/busybox", "cpio", "-o", "-H", "newc"], cwd=root, input="dev\ndev/console\ninit\n", text=True,
                           stdout=file, stderr=subprocess.DEVNULL, check=True)
        self.emulator = shutil.which("qemu-system-x86_64")


class Guest:
    """A virtual machine that works until the context ends."""

    def __init__(self, kit, name, program, cpus=1):
        self.name, self.program, self.cpus = name, program, cpus
        self.at, self.said = [], []
        monitor = f"{kit.folder}/{name}.qmp"
        self.process = subprocess.Popen(
            [kit.emulator, "-name", f"{name},debug-threads=on", "-machine", "q35", "-accel", "tcg,thread=multi",
             "-cpu", "max,vendor=GenuineIntel", "-smp", str(cpus), "-m", "128M", "-kernel", kit.kernel, "-initrd", kit.archive,
             "-append", f"{KERNEL} program={program} threads={cpus}", "-display", "none", "-monitor", "none", "-nodefaults",
             "-no-user-config", "-no-reboot", "-nic", "none", "-serial", "stdio", "-qmp", f"unix:{monitor},server=on,wait=off"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace", preexec_fn=alone_in_death)
        self.monitor_path, self.monitor = monitor, None
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        for line in self.process.stdout:
            if line.startswith("= ") and len(line.split()) == 4:
                self.at.append(time.monotonic())
                self.said.append(tuple(int(n) for n in line.split()[1:]))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def booted(self):
        """Wait until it works."""
        end = time.monotonic() + BOOT_S
        while len(self.said) < 4:
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError(f"{self.name} did not boot")
            time.sleep(0.1)
        self.monitor = socket.socket(socket.AF_UNIX)
        self.monitor.connect(self.monitor_path)
        self.answers = self.monitor.makefile()
        self.answers.readline()
        self._ask("qmp_capabilities")
        return self

    def _ask(self, what):
        self.monitor.sendall(json.dumps({"execute": what}).encode() + b"\n")
        while True:
            answer = json.loads(self.answers.readline())
            if "error" in answer:
                raise RuntimeError(f"{self.name}: {what}: {answer}")
            if "return" in answer:
                return

    def go(self, goes):
        """Let its virtual CPUs run, or stop them together with its clock."""
        self._ask("cont" if goes else "stop")

    def pin(self, cpus):
        """Pin all its threads to these CPUs of the machine."""
        for task in os.listdir(f"/proc/{self.process.pid}/task"):
            os.sched_setaffinity(int(task), cpus)

    def work(self, begin, end):
        """Return its work per second between two times, interpolated between the lines around each."""

        def at(when):
            i = min(max(bisect.bisect(self.at, when), 1), len(self.at) - 1)
            (t0, t1), (w0, w1) = self.at[i - 1:i + 1], (said[0] for said in self.said[i - 1:i + 1])
            return w0 + (w1 - w0) * (when - t0) / (t1 - t0)
        return (at(end) - at(begin)) / (end - begin)

    def long_waits(self, begin, end):
        """Return the waits for its lock of a millisecond or more per second, and the longest, between two times."""
        said = [s for t, s in zip(self.at, self.said) if begin <= t <= end]
        if len(said) < 2:
            return 0.0, 0
        return (said[-1][1] - said[0][1]) / (end - begin), max(s[2] for s in said[1:])


def profiled(guest, report):
    """Return the counts of `corun profile --vm` for its virtual CPUs, per second, and the parts of their time."""
    with open(report) as file:
        seen = json.load(file)
    seconds, of = seen["window_ns"] / 1e9, seen["subject"]
    ledger, events = of["ledger"], of["events"]
    life = ledger["total_ns"]
    share = lambda name: ledger[name] / life if life else None
    rate = lambda name: None if events[name] is None else events[name] / seconds
    by = events["migrations_by_distance"] or {}
    return {
        "source": seen["source"], "seconds": seconds, "on_cpu": share("compute_ns"), "stolen": share("steal_ns"), "blocked": share("block_ns"),
        "preemptions": rate("preemptions"), "wakeups": rate("wakeups"), "migrations": rate("migrations"),
        "between_cores": None if events["migrations"] is None else (events["migrations"] - by.get("same_core", 0)) / seconds,
        "by_vcpu": [t["events"]["migrations"] for t in seen["tasks"] if t["name"].startswith("CPU ")],
    }


def situation(kit, guests, running, seconds, beside=None):
    """Let `running` run, stop the others, and profile those that run. `beside` is a command for the same time."""
    for guest in guests:
        guest.go(guest in running)
    time.sleep(0.5)
    command = beside and subprocess.Popen(beside, stdout=subprocess.DEVNULL, preexec_fn=alone_in_death)
    if command:
        # The controller observes before it decides anything.
        time.sleep(2)
    reports = {g: f"{kit.folder}/{g.name}.json" for g in running}
    profiles = [subprocess.Popen([CORUN, "profile", "--vm", g.name, "--for", f"{seconds + 1}s", "--json", report, "-q"],
                                 stdout=subprocess.DEVNULL, preexec_fn=alone_in_death) for g, report in reports.items()]
    # By now all have begun.
    time.sleep(1)
    begin = time.monotonic()
    time.sleep(seconds)
    end = time.monotonic()
    if any([p.wait(timeout=60) for p in profiles]):
        raise RuntimeError("corun profile failed")
    if command and command.poll() not in (None, 0):
        raise RuntimeError(f"{beside} failed")
    if command:
        command.send_signal(signal.SIGINT)
        if command.wait(timeout=60):
            raise RuntimeError(f"{beside} failed")
    rows = []
    for guest, report in reports.items():
        waits, longest = guest.long_waits(begin, end)
        rows.append({"vm": guest.name, "program": guest.program, "work": guest.work(begin, end), "long_waits": waits, "longest_ns": longest,
                     **profiled(guest, report)})
    return rows
