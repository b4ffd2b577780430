"""Programs bare and under `corun verify`, in turn. Each program reports its own time."""
import json, os, random, subprocess, time
from .kit import pace, verified, work


def rows(until, folder, cpu):
    loops = pace(cpu)
    own = f"{folder}/own.json"
    # One without interruptions, and one whose threads wait for each other a thousand times per second.
    programs = {"one thread": work(loops, 250), "two threads, a barrier every ms": work(loops, 250, 2, "barrier", "block")}
    kinds = {"bare": None, "verify": [], "verify --results": ["--results", f"{folder}/none.json"], "bare again": None}
    while time.monotonic() < until:
        for name, command in programs.items():
            walls = {}
            for kind in random.sample(list(kinds), len(kinds)):
                if kinds[kind] is None:
                    subprocess.run(command + ["--json", own], stdout=subprocess.DEVNULL, check=True)
                else:
                    verified(folder, kinds[kind], command + ["--json", own])
                with open(own) as file:
                    walls[kind] = json.load(file)["wall_ns"]
                os.remove(own)
            yield {"program": name, **walls}
