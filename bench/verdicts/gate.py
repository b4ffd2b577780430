"""Pairs of a benchmark, equal or 5 % apart, under injected noise: a gate's verdicts before and after cleaning."""
import contextlib, math, random, time
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
        said = [[], []]
        # Alternate, since a host that changes its speed would otherwise make the halves of a pair differ.
        for half in (0, 1, 1, 0):
            bench = ["taskset", "-c", str(cpu), "hyperfine", "-N", "-r", str(ITERATIONS // 2), "--style", "none", "--export-json",
                     f"{folder}/b.json", " ".join(work(round(loops * (1.0, slower)[half]), MS_OF_WORK))]
            flags = ["--results", f"{folder}/b.json", "--retries", str(RETRIES)]
            with contextlib.nullcontext() if kind == "none" else noisy(kind, cpu, folder):
                said[half].append(verified(folder, flags, bench))
        tries = [sum(len(turn["tries"]) for turn in half) for half in said]
        pair = [together([turn["benchmarks"][0] for turn in half]) for half in said]
        yield {"noise": kind, "slower": slower, "tries": tries, "pair": pair}


def together(turns):
    """Sum up the turns of one half, to a microsecond: counts are added, and means and deviations are over all iterations."""
    counts = {word: sum(turn[word] for turn in turns) for word in ("disturbed", "unclear")}
    return {word: pooled([turn[word] for turn in turns if turn[word]]) for word in ("raw", "cleaned")} | counts


def pooled(parts):
    """Return count, mean and standard deviation of all iterations, from those of their parts. `None` without iterations."""
    count = sum(part["count"] for part in parts)
    if not count:
        return None
    mean = sum(part["count"] * part["mean_s"] for part in parts) / count
    squares = sum((part["count"] - 1) * (part["deviation_s"] or 0) ** 2 + part["count"] * (part["mean_s"] - mean) ** 2 for part in parts)
    return {"count": count, "mean_s": round(mean, 7), "deviation_s": round(math.sqrt(squares / max(count - 1, 1)), 7)}
