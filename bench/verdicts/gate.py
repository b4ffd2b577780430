"""Pairs of a benchmark, equal or 5 % apart, under injected noise: a gate's verdicts before and after cleaning."""
import contextlib, random, time
from .kit import Neighbour, compiler, in_turns, pace, verified, work
from .statistics_of import SOUGHT

# Noise on the benchmark's CPU: seconds busy, seconds idle. All turns are longer than an iteration, and some shorter than a run.
TURNS = {"none": None, "persistent": (1e9, 0), "periodic": (0.3, 0.3), "intermittent": (0.2, 0.8)}
KINDS = [*TURNS, "compiler"]
# The shortest iteration that can be measured to a percent with a process that starts and computes. So a pair takes seconds.
RETRIES, ITERATIONS, MS_OF_WORK = 3, 10, 25


def noisy(kind, cpu, folder):
    return Neighbour(cpu, compiler(folder) if kind == "compiler" else in_turns(*TURNS[kind]))


def rows(until, folder, cpu):
    """Return every kind of noise in turn. Noise without a pause comes half as often: it leaves nothing clean, which takes all
    retries. Every second pair of a kind is equal."""
    loops = pace(cpu)
    turn = [*KINDS, *(kind for kind in KINDS if kind != "persistent")]
    seen = dict.fromkeys(KINDS, random.randrange(2))
    number = random.randrange(len(turn))
    while time.monotonic() < until:
        kind = turn[number % len(turn)]
        slower = (1.0, 1 + SOUGHT)[seen[kind] % 2]
        seen[kind] += 1
        number += 1
        pair, tries = [], []
        for factor in (1.0, slower):
            bench = ["taskset", "-c", str(cpu), "hyperfine", "-N", "-r", str(ITERATIONS), "--style", "none",
                     "--export-json", f"{folder}/b.json", " ".join(work(round(loops * factor), MS_OF_WORK))]
            flags = ["--results", f"{folder}/b.json", "--retries", str(RETRIES)]
            with contextlib.nullcontext() if kind == "none" else noisy(kind, cpu, folder):
                said = verified(folder, flags, bench)
            of = said["benchmarks"][0]
            tries.append(len(said["tries"]))
            pair.append({key: short(of[key]) for key in ("raw", "cleaned", "disturbed", "unclear")})
        yield {"noise": kind, "slower": slower, "tries": tries, "pair": pair}


def short(value):
    """Only what is used, to a microsecond."""
    if not isinstance(value, dict):
        return value
    return {key: round(value[key] or 0, 7) for key in ("count", "mean_s", "deviation_s")}
