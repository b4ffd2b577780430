"""Tests ended by a time-out, some of them starved: is each label right?

The truth comes from the test runner, which controls the loop on the test's CPU, and from the account of the root cgroup. A test without the loop
is neither if others still had a twentieth of its CPU's time or more, half of the limit for starving. corun runs on the other CPU.
"""
import json, os, random, signal, subprocess, sys, time
from .kit import Neighbour, in_turns, pace, verified, work

# A test runner in one file. Every test is a command with a time limit. Only the runner knows what it does to the loop on its CPU. It runs on
# that CPU itself: a process that starts elsewhere would have to wait for the loop there.
RUNNER = """
import datetime, json, os, resource, select, signal, subprocess, sys, time
loop, tests, out = int(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
cpu, = os.sched_getaffinity(0)
def had_by_others():
    own = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    with open("/sys/fs/cgroup/cpuacct/cpuacct.usage_percpu") as file:
        return int(file.read().split()[cpu]) / 1e9 - own
cases, others = [], {}
for name, starve, limit, command in tests:
    os.kill(loop, signal.SIGCONT if starve else signal.SIGSTOP)
    had = had_by_others()
    at, begin = datetime.datetime.now(datetime.timezone.utc).isoformat(), time.monotonic()
    child = subprocess.Popen(command, start_new_session=True)
    # It sleeps until the test ends or its time is up: one that looks again and again would wait for CPUs itself.
    ended = select.poll()
    ended.register(os.pidfd_open(child.pid), select.POLLIN)
    failure = "" if ended.poll(1e3 * limit) else "<failure message='time-out'/>"
    if failure:
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    took = time.monotonic() - begin
    os.kill(loop, signal.SIGSTOP)
    others[name] = (had_by_others() - had) / took
    cases.append(f"<testcase name='{name}' timestamp='{at}' time='{took:.6f}'>{failure}</testcase>")
open(out, "w").write("<testsuites><testsuite name='s'>" + "".join(cases) + "</testsuite></testsuites>")
json.dump(others, open(out + ".others", "w"))
"""
# A test has one and a half times its solo time. A starved one would need twice its time.
LIMIT = 1.5
# The most CPU time of others for a test that counts as not starved: half of verify's limit for starving.
LEFT_ALONE = 0.05
LENGTHS_MS = (60, 150, 400)


def forks(n):
    """Return a shell command that starts this many short processes, one after another."""
    return ["sh", "-c", f"i=0; while [ $i -lt {n} ]; do env true; i=$((i+1)); done"]


def rows(until, folder, cpu, other):
    loops = pace(cpu)
    pinned = ["taskset", "-c", str(cpu)]
    programs = {"computes": lambda ms: work(loops, ms), "starts processes": lambda ms: forks(round(ms))}

    def alone(command):
        """Return the solo time of a test: the shortest of a few."""
        walls = []
        for _ in range(5):
            begin = time.monotonic()
            subprocess.run(pinned + command, stdout=subprocess.DEVNULL, check=True)
            walls.append(time.monotonic() - begin)
        return min(walls)

    needs = {(name, ms): alone(make(ms)) for name, make in programs.items() for ms in LENGTHS_MS}
    with Neighbour(cpu, in_turns(1e9, 0)) as loop, Neighbour(other, in_turns(1e9, 0)):
        os.kill(loop.child, signal.SIGSTOP)
        while time.monotonic() < until:
            tests = []
            for n in range(4):
                starve = random.random() < 0.5
                name, ms = random.choice(list(needs))
                limit = LIMIT * needs[name, ms]
                # A starved test would have finished alone. The other kinds have too much work, or wait forever.
                if starve or random.random() < 0.6:
                    command = programs[name](ms if starve else 4 * ms)
                else:
                    name, command = "sleeps", ["sleep", "60"]
                tests.append((f"{n} {name}", starve, limit, pinned + command))
            said = verified(folder, ["--junit", f"{folder}/t.xml", "--policy", "neutral"],
                            [*pinned, sys.executable, "-c", RUNNER, str(loop.child), json.dumps(tests), f"{folder}/t.xml"], other)
            failed = {t["name"]: t for t in said["failed_tests"]}
            with open(f"{folder}/t.xml.others") as file:
                others = json.load(file)
            for name, starve, limit, _ in tests:
                # A test that finished in time shows nothing: its load came too late.
                if name in failed:
                    yield {"starved": starve, "others": round(others[name], 4), "counts": starve or others[name] <= LEFT_ALONE, "limit_s": round(limit, 4), "test": name.split(" ", 1)[1],
                           "said": failed[name]["verdict"], "why": failed[name]["why"]}
