"""How soon a program's width changes after a busy neighbor has come or gone."""
import os, signal, subprocess, sys, time
from .places import CPUS, LOOP, TARGET

KERNELS = os.path.abspath(f"{TARGET}/examples/kernels")
TURNS, SECONDS = 6, 1.4


def told(lines):
    """Return the changes of the width as (time, threads), from the lines of the program."""
    return [(int(at) / 1e9, int(threads)) for at, threads in (line.split() for line in lines)]


def reactions(changes, turns):
    """Return for each turn (time, whether a neighbor came) the seconds until the width fits. `None` if it did not before the next turn."""
    found = []
    for (at, comes), (until, _) in zip(turns, [*turns[1:], (float("inf"), None)]):
        fits = (lambda threads: threads < CPUS) if comes else (lambda threads: threads == CPUS)
        before = [threads for when, threads in changes if when <= at]
        # Another number of threads was just being tried, so this turn shows nothing.
        if before and fits(before[-1]):
            continue
        after = [when for when, threads in changes if at < when < until and fits(threads)]
        found.append((comes, after[0] - at if after else None))
    return found


def reaction(_, only):
    """Run a program whose threads wait for each other, next to a loop that is stopped and continued."""
    if only not in "reaction":
        return
    loop = subprocess.Popen([sys.executable, "-c", LOOP], start_new_session=True)
    try:
        loop.send_signal(signal.SIGSTOP)
        argv = [KERNELS, "widths", "adaptive", str(2 * TURNS * SECONDS + 2)]
        program = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        time.sleep(1)
        turns = []
        for turn in range(2 * TURNS):
            comes = turn % 2 == 0
            turns.append((time.time(), comes))
            loop.send_signal(signal.SIGCONT if comes else signal.SIGSTOP)
            time.sleep(SECONDS)
        lines, _ = program.communicate(timeout=60)
    finally:
        loop.kill()
        loop.wait()
    for comes, seconds in reactions(told(lines.splitlines()), turns):
        yield {"change": "comes" if comes else "goes", "seconds": seconds}
