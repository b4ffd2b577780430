#!/usr/bin/env python3
"""Measure what tools that are always on take: corun's agent, Rezolus and `perf sched record`, and `corun top`. Needs root, cc and perf.

    bench/agents.py run    --out FILE [--rounds 3] [--seconds 15] [--tenants 1000] [--switches 50000] [--tasks 2000] [--tool NAME]
    bench/agents.py record FILE... --out DIR     a record for scripts/keep-record

A number of process groups sleep, and two processes on one CPU switch at a fixed rate. In each round every tool watches them, one after the other.
A tool's CPU time is that of its process in the kernel's count. Its programs in the kernel run in the time of the watched tasks; `make bench`
measures them. `CORUN` names the program (default: target/release/corun). `REZOLUS` names that of Rezolus, and `REZOLUS_CONFIG` its
configuration; without them it is left out. corun's agent is scraped once in a round, as Prometheus does every 15 s. Afterwards it is
scraped once in each of some windows, which are timed, and then many times in a row. Rezolus samples on request, so it gets a request every second. While `corun top` watches, on a terminal, there are as many tasks as
`--tasks` says.

Memory is what is resident (VmRSS), which has what is shared with others, and what the kernel holds for the tool's BPF maps besides.
"""
import argparse, fcntl, glob, http.client, json, os, pty, re, signal, statistics, struct, subprocess, sys, tempfile, termios, threading, time
import records
from records import table

SCHEMA = "corun.agents-bench/1"
CORUN = os.path.abspath(os.environ.get("CORUN", "target/release/corun"))
PORT = 19965
HERE = os.path.dirname(os.path.abspath(__file__))
TICKS = os.sysconf("SC_CLK_TCK")
FRESH = 25
SCRAPES = 150
SLEEPERS = """import sys, threading, time
threading.stack_size(1 << 16)
for _ in range(int(sys.argv[1]) - 1):
    threading.Thread(target=time.sleep, args=(100000,), daemon=True).start()
time.sleep(100000)"""


def get(port, path):
    """Return the seconds that an answer takes, and its bytes."""
    begin = time.monotonic()
    server = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    server.request("GET", path)
    body = server.getresponse().read()
    server.close()
    return time.monotonic() - begin, len(body)


class Tool:
    """A tool. `arguments` gets a folder that it may write to."""

    def __init__(self, name, arguments, port=None, path=None, every=None, terminal=False):
        self.name, self.arguments, self.port, self.path, self.every, self.terminal = name, arguments, port, path, every, terminal

    def serves(self):
        try:
            get(self.port, self.path)
            return True
        except OSError:
            return False

    def start(self, folder):
        with open(f"{folder}/{self.name}.log", "w") as log:
            process = on_terminal(self.arguments(folder)) if self.terminal else subprocess.Popen(self.arguments(folder), stdout=log, stderr=log)
        until = time.monotonic() + 60
        while self.port and not self.serves():
            if process.poll() is not None or time.monotonic() > until:
                with open(f"{folder}/{self.name}.log") as log:
                    sys.exit(f"{self.name} does not serve: {log.read()[-500:]}")
            time.sleep(0.2)
        # By now all of them have attached and started.
        time.sleep(3)
        return process


def tools():
    found = [
        Tool("corun agent", lambda folder: [CORUN, "agent", "--listen", f"127.0.0.1:{PORT}", "--ring", f"{folder}/ring", "--max-tenants", "2000"],
             PORT, "/metrics", 15),
        Tool("corun top", lambda _: [CORUN, "top"], terminal=True),
        Tool("perf sched record", lambda folder: ["perf", "sched", "record", "-a", "-o", f"{folder}/perf.data"]),
    ]
    if "REZOLUS" in os.environ:
        arguments = [os.environ["REZOLUS"], "agent", os.environ["REZOLUS_CONFIG"]]
        found.append(Tool("rezolus", lambda _: arguments, 4241, "/metrics/binary", 1))
    return found


def on_terminal(argv):
    """Start a program on a terminal of its own, whose screen nobody looks at."""
    own, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    process = subprocess.Popen(argv, stdin=its, stdout=its, stderr=its, env={**os.environ, "TERM": "xterm-256color"})
    os.close(its)

    def look():
        try:
            while os.read(own, 1 << 16):
                pass
        except OSError:
            os.close(own)

    threading.Thread(target=look, daemon=True).start()
    return process


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident(pid):
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS:"))


def of_maps(pid):
    """Return the bytes that the kernel holds for the BPF maps of a process."""
    sizes = {}
    for path in glob.glob(f"/proc/{pid}/fdinfo/*"):
        try:
            with open(path) as file:
                told = dict(re.findall(r"^(map_id|memlock):\s*(\d+)$", file.read(), re.M))
        except OSError:
            continue
        if "map_id" in told:
            sizes[told["map_id"]] = int(told["memlock"])
    return sum(sizes.values())


def switches():
    with open("/proc/stat") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("ctxt "))


def watch(tool, seconds, folder):
    process = tool.start(folder)
    try:
        begin, cpu, switched = time.monotonic(), cpu_seconds(process.pid), switches()
        asked = begin
        while (now := time.monotonic()) < begin + seconds:
            if tool.every and now >= asked:
                get(tool.port, tool.path)
                asked += tool.every
            time.sleep(0.05)
        took = time.monotonic() - begin
        row = {"kind": "watched", "tool": tool.name, "seconds": took, "cpu": (cpu_seconds(process.pid) - cpu) / took,
               "switches": (switches() - switched) / took, "resident": resident(process.pid), "maps": of_maps(process.pid)}
        if tool.port:
            answers = []
            for _ in range(FRESH):
                # Each is of another window than the one before, as those that come every 15 s are.
                time.sleep(1.03)
                answers.append(get(tool.port, tool.path))
            for _ in range(SCRAPES):
                get(tool.port, tool.path)
            times = sorted(took for took, _ in answers)
            row |= {"scrape": statistics.median(times), "scrape_p90": times[len(times) * 9 // 10], "bytes": answers[-1][1],
                    "resident_before": row["resident"], "resident": resident(process.pid)}
        return row
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run(args):
    sleepers, switcher = [], None
    with tempfile.TemporaryDirectory() as folder, open(args.out, "a") as out:
        try:
            program = f"{folder}/switcher"
            subprocess.run(["cc", "-O2", "-o", program, f"{HERE}/agents/switcher.c"], check=True)
            for _ in range(args.tenants):
                sleepers.append(subprocess.Popen(["sleep", "100000"], process_group=0))
            switcher = subprocess.Popen([program, "1", str(args.switches)])
            for _ in range(args.rounds):
                for tool in tools():
                    if args.tool and tool.name != args.tool:
                        continue
                    threads = args.tasks - args.tenants if tool.terminal else 0
                    if threads > 0:
                        sleepers.append(subprocess.Popen([sys.executable, "-c", SLEEPERS, str(threads)]))
                    row = {"tenants": args.tenants, "tasks": args.tenants + threads, **watch(tool, args.seconds, folder)}
                    print(json.dumps(row), flush=True)
                    out.write(json.dumps(row) + "\n")
                    out.flush()
                    if threads > 0:
                        ended = sleepers.pop()
                        ended.kill()
                        ended.wait()
        finally:
            for process in [*sleepers, *([switcher] if switcher else [])]:
                process.kill()
                process.wait()


def of_tools(rows):
    found, lines = {}, []
    for name in dict.fromkeys(row["tool"] for row in rows["watched"]):
        of = [row for row in rows["watched"] if row["tool"] == name]
        middle = lambda key: statistics.median(row[key] for row in of)
        key = name.removeprefix("corun ").split()[0]
        found |= {f"{key}.cpu": f"{100 * middle('cpu'):.2f} %", f"{key}.cpu.most": f"{100 * max(row['cpu'] for row in of):.2f} %",
                  f"{key}.memory": f"{middle('resident') / 1e6:.1f} MB", f"{key}.maps": f"{middle('maps') / 1e6:.1f} MB"}
        if "scrape" in of[0]:
            found |= {f"{key}.scrape": f"{1e3 * middle('scrape'):.1f} ms", f"{key}.scrape.p90": f"{1e3 * middle('scrape_p90'):.1f} ms",
                      f"{key}.bytes": f"{middle('bytes') / 1e6:.2f} MB", f"{key}.memory.before": f"{middle('resident_before') / 1e6:.1f} MB"}
        lines.append([name, found[f"{key}.cpu"], found[f"{key}.cpu.most"], found[f"{key}.memory"], found[f"{key}.maps"],
                      found.get(f"{key}.scrape", "-"), found.get(f"{key}.scrape.p90", "-"), found.get(f"{key}.bytes", "-")])
    found["rounds"] = max(sum(row["tool"] == name for row in rows["watched"]) for name in {row["tool"] for row in rows["watched"]})
    found["tenants"] = f"{rows['watched'][0]['tenants']:,}"
    found["tasks"] = f"{max(row['tasks'] for row in rows['watched']):,}"
    found["scrapes"] = SCRAPES
    found["switches"] = f"{statistics.median(row['switches'] for row in rows['watched']):,.0f}"
    found["table"] = table(["tool", "of a CPU", "at most", "resident", "BPF maps", "an answer takes", "nine of ten", "and has"], lines)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["run", "record"])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--out", required=True)
    for name, default in [("rounds", 3), ("seconds", 15), ("tenants", 1000), ("switches", 50000), ("tasks", 2000)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--tool")
    args = parser.parse_args()
    if args.kind == "run":
        return run(args)
    rows = records.read(args.files)
    if not rows["watched"]:
        parser.error("the files have no rows")
    records.write(args.out, SCHEMA, "What tools that are always on take for themselves", CORUN, records.facts(rows, [of_tools]), {"rows": rows["watched"]},
                  ["bench/agents.py run"], "`result.json.gz` has every run.")


if __name__ == "__main__":
    main()
