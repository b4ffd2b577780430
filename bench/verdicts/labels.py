"""Tests ended by a time-out, some of them starved: is each labelled rightly?

Truth is what the test runner did to the loop on the test's CPU, and the account of the root cgroup: a test that was left alone, but next to
which others had a twentieth of its CPU's time or more, half of what starves, is neither. corun runs on the other CPU.
"""
import json, os, random, signal, subprocess, sys, time
from .kit import Neighbour, in_turns, pace, verified, work

# A test runner of one file: every test is a command with a time limit, and what it does to the loop on its CPU is known to it alone. It runs
# on that CPU itself: what starts elsewhere would wait for the loop that is there.
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
# A test is given half as much time again as it needs alone. A starved one would need twice its time.
LIMIT = 1.5
# The most that others may have had of the CPU of a test that counts as not starved: half of what verify takes for starving.
LEFT_ALONE = 0.05
LENGTHS_MS = (60, 150, 400)


def forks(n):
    """A shell that starts so many short processes, one after another."""
    return ["sh", "-c", f"i=0; while [ $i -lt {n} ]; do env true; i=$((i+1)); done"]


def rows(until, folder, cpu, other):
    loops = pace(cpu)
    pinned = ["taskset", "-c", str(cpu)]
    programs = {"computes": lambda ms: work(loops, ms), "starts processes": lambda ms: forks(round(ms))}

    def alone(command):
        """What a test takes alone: the quickest of a few."""
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
                # A starved test would have made it; another one has too much to do, or waits for nothing.
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
                # One that was through in time says nothing: its load came too late.
                if name in failed:
                    yield {"starved": starve, "others": round(others[name], 4), "counts": starve or others[name] <= LEFT_ALONE, "limit_s": round(limit, 4), "test": name.split(" ", 1)[1],
                           "said": failed[name]["verdict"], "why": failed[name]["why"]}
