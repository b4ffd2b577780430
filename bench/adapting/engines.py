"""The simulation engine: next to busy loops with either mapping, and compared with ROSS."""
import os, re, resource, subprocess
from .places import TARGET, neighbours

PHOLD = os.path.abspath(f"{TARGET}/examples/phold")
RATE = re.compile(r"^(\d+) events/s .* ([\d.]+) % efficient", re.M)
MAPPINGS = {"FM": ["mapping=fixed", "idle=spin"], "LADM": ["mapping=ladm", "idle=block"], "LADM, spins": ["mapping=ladm", "idle=spin"]}
MOST_LOOPS = 4


def phold(*options):
    done = subprocess.run([PHOLD, *options], stdout=subprocess.PIPE, text=True, timeout=120, check=True)
    rate, efficiency = RATE.search(done.stdout).groups()
    return {"rate": float(rate), "efficiency": float(efficiency) / 100}


def engine(_, only):
    """Run one worker alone, and two next to k busy loops."""
    if only in "one worker":
        yield {"loops": 0, "mapping": "one worker", **phold("workers=1", "until=400000", *MAPPINGS["FM"])}
    for loops in range(MOST_LOOPS + 1):
        for name, options in MAPPINGS.items():
            if only in name:
                # In the session of the engine, so that each loop counts as much as one of its threads.
                with neighbours(loops, are_others=False):
                    yield {"loops": loops, "mapping": name, **phold("workers=2", "until=400000", *options)}


# Ticks are thousandths of ROSS's unit of time. 1,024 LPs with 8 events each, a quarter of which go to any LP; look-ahead 0.1, mean delay 1.1.
OURS = ["lps=1024", "population=8", "remote_ppm=250000", "look_ahead=100", "mean_delay=1000"]
THEIRS = ["--nlp=1024", "--start-events=8", "--remote=0.25", "--lookahead=0.1", "--mean=1.1"]
# The cost of the first length is subtracted from that of the second, so that starting does not count.
ENDS = (50, 600)


def measured(argv, events, folder):
    """Return events and CPU seconds. ROSS leaves files in its folder."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=True, cwd=folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return int(re.search(events, done.stdout).group(1).replace(",", "")), cpu


def longer(argv, events, folder):
    """Return events per CPU second between the two lengths. `argv` makes a command for a length."""
    first, second = (measured(argv(end), events, folder) for end in ENDS)
    done, cpu = (b - a for a, b in zip(first, second))
    return {"rate": done / cpu, "events": done}


def ross(folder, only):
    """Compare one thread of each."""
    def ours(*options):
        return longer(lambda end: [PHOLD, *OURS, *options, f"until={end * 1000}"], r"(\d+) committed", folder)

    def theirs():
        program = os.path.abspath(os.environ["ROSS_PHOLD"])
        return longer(lambda end: [program, "--synch=1", *THEIRS, f"--end={end}"], r"Net Events Processed\s+([\d,]+)", folder)

    runs = [("ROSS, sequential", theirs),
            ("`run_sequentially`", lambda: ours("engine=sequential")),
            ("`run`, one worker", lambda: ours("workers=1", "mapping=fixed", "idle=spin"))]
    for name, measure in runs:
        if only in name:
            yield {"engine": name, **measure()}
