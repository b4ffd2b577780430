#!/usr/bin/env python3
"""Measure what tools that are always on take: corun's agent, Rezolus and `perf sched record`, and `corun top`. Needs root, cc and perf.

    bench/agents.py run    --out FILE [--rounds 3] [--seconds 15] [--tenants 1000] [--switches 50000] [--tasks 2000] [--tool NAME]
    bench/agents.py record FILE... --out DIR     a record for scripts/keep-record

A number of process groups sleep, and two processes on one CPU switch at a fixed rate. In each round every tool watches them, one after the other.
A tool's CPU time is that of its process in the kernel's count. Its programs in the kernel run in the time of the watched tasks; `make bench`
measures them. `CORUN` names the program (default: target/release/corun). `REZOLUS` names that of Rezolus (default: the one in the path), and
`REZOLUS_CONFIG` its configuration (default: run queues alone). Without the program, the bench leaves Rezolus out. corun's agent is scraped once in a round,
as Prometheus does every 15 s. Afterwards it is scraped once in each of several windows, which are timed: as plain text, and as Prometheus asks,
which accepts gzip. Then it is scraped many times in a row. Rezolus samples on request, so it gets a request every second. `corun top`
watches on a terminal, while there are as many tasks as `--tasks` says.

Memory is the resident memory (VmRSS), which includes shared memory, and what the kernel holds for the tool's BPF maps.
"""
import argparse, fcntl, glob, http.client, json, os, pty, re, shutil, signal, statistics, struct, subprocess, sys, tempfile, termios, threading, time
import records
from records import table

SCHEMA = "corun.agents-bench/1"
CORUN = os.path.abspath(os.environ.get("CORUN", "target/release/corun"))
PORT = 19965
HERE = os.path.dirname(os.path.abspath(__file__))
FRESH = 25
SCRAPES = 150
SLEEPERS = """import sys, threading, time
threading.stack_size(1 << 16)
for _ in range(int(sys.argv[1]) - 1):
    threading.Thread(target=time.sleep, args=(100000,), daemon=True).start()
time.sleep(100000)"""


# Rezolus samples the run queues and nothing else, at the priority of other programs.
ONLY_RUN_QUEUES = """[general]
listen = "127.0.0.1:4241"
[scheduler]
policy = "normal"
[log]
level = "error"
[defaults]
enabled = false
[samplers.scheduler_runqueue]
enabled = true
"""


def get(port, path, encoding="identity"):
    """Return the seconds that an answer takes, its length, and whether it is compressed."""
    took, body, is_zipped = ask(port, path, encoding)
    return took, len(body), is_zipped


def ask(port, path, encoding="identity"):
    begin = time.monotonic()
    server = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    server.request("GET", path, headers={"Accept-Encoding": encoding})
    answer = server.getresponse()
    body = answer.read()
    server.close()
    return time.monotonic() - begin, body, answer.getheader("Content-Encoding") == "gzip"


class Tool:
    """A tool. `arguments` gets a folder that it may write to."""

    def __init__(self, name, arguments, port=None, path=None, every=None, terminal=False, has=None):
        self.name, self.arguments, self.port, self.path, self.every, self.terminal = name, arguments, port, path, every, terminal
        # A tool whose program does not load in this kernel may serve all the same. If it sees something, this is on its page.
        self.has = has

    def sees(self):
        return not self.has or self.has in ask(self.port, self.path)[1]

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
        # By now, all of them have attached and started.
        time.sleep(3)
        return process


def tools():
    found = [
        Tool("corun agent", lambda folder: [CORUN, "agent", "--listen", f"127.0.0.1:{PORT}", "--ring", f"{folder}/ring", "--max-tenants", "2000"],
             PORT, "/metrics", 15),
        Tool("corun top", lambda _: [CORUN, "top"], terminal=True),
        Tool("perf sched record", lambda folder: ["perf", "sched", "record", "-a", "-o", f"{folder}/perf.data"]),
    ]
    rezolus = os.environ.get("REZOLUS") or shutil.which("rezolus")
    if rezolus:
        found.append(Tool("rezolus", lambda folder: [rezolus, configured(folder)], 4241, "/metrics/binary", 1, has=b"scheduler_runqueue"))
    return found


def configured(folder):
    """Return the file that configures Rezolus."""
    if "REZOLUS_CONFIG" in os.environ:
        return os.environ["REZOLUS_CONFIG"]
    path = f"{folder}/rezolus.toml"
    with open(path, "w") as file:
        file.write(ONLY_RUN_QUEUES)
    return path


def on_terminal(argv):
    """Start a program on its own terminal, whose screen is discarded."""
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
    """Return the time of its CPU clock, to the nanosecond. What /proc says are ticks: one of them is a tenth of what an agent takes in a second."""
    return time.clock_gettime(~pid << 3 | 2)


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
        if not tool.sees():
            print(f"skipped: {tool.name} sees nothing here; does its program load in this kernel?", file=sys.stderr)
            return None
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
            row |= answers(tool, "identity", "scrape")
            # A tool that cannot compress answers as before.
            row |= answers(tool, "gzip", "zipped") if get(tool.port, tool.path, "gzip")[2] else {}
            for _ in range(SCRAPES):
                get(tool.port, tool.path)
            row |= {"resident_before": row["resident"], "resident": resident(process.pid)}
        return row
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def answers(tool, encoding, name):
    times = []
    for _ in range(FRESH):
        # Each is of another window than the one before, as those that come every 15 s are.
        time.sleep(1.03)
        took, size, _ = get(tool.port, tool.path, encoding)
        times.append(took)
    times.sort()
    return {name: statistics.median(times), f"{name}_p90": times[len(times) * 9 // 10], f"{name}_bytes": size}


def run(args):
    # Whoever ends it ends what it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if not any(tool.name == "rezolus" for tool in tools()):
        print("skipped: rezolus is not in the path (cargo install rezolus)", file=sys.stderr)
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
                    seen = watch(tool, args.seconds, folder)
                    if seen:
                        row = json.dumps({"tenants": args.tenants, "tasks": args.tenants + threads, **seen})
                        print(row, flush=True)
                        out.write(row + "\n")
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
            found[f"{key}.memory.before"] = f"{middle('resident_before') / 1e6:.1f} MB"
        for kind in ["scrape", "zipped"]:
            if kind in of[0]:
                found |= {f"{key}.{kind}": f"{1e3 * middle(kind):.1f} ms", f"{key}.{kind}.p90": f"{1e3 * middle(kind + '_p90'):.1f} ms",
                          f"{key}.{kind}.bytes": f"{middle(kind + '_bytes') / 1e3:,.0f} kB"}
        lines.append([name, found[f"{key}.cpu"], found[f"{key}.cpu.most"], found[f"{key}.memory"], found[f"{key}.maps"],
                      *(found.get(f"{key}.{what}", "-") for what in ["scrape", "scrape.p90", "scrape.bytes", "zipped", "zipped.p90", "zipped.bytes"])])
    found["rounds"] = max(sum(row["tool"] == name for row in rows["watched"]) for name in {row["tool"] for row in rows["watched"]})
    found["tenants"] = f"{rows['watched'][0]['tenants']:,}"
    found["tasks"] = f"{max(row['tasks'] for row in rows['watched']):,}"
    found["scrapes"] = SCRAPES
    found["switches"] = f"{statistics.median(row['switches'] for row in rows['watched']):,.0f}"
    answer = ["an answer takes", "nine of ten", "and has"]
    found["table"] = table(["tool", "of a CPU", "at most", "resident", "BPF maps", *answer, "by gzip", "nine of ten", "and has"], lines)
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
    records.write(args.out, SCHEMA, "The cost of tools that are always on", CORUN, records.facts(rows, [of_tools]), {"rows": rows["watched"]},
                  ["bench/agents.py run"], "`result.json.gz` has every run.")


if __name__ == "__main__":
    main()
