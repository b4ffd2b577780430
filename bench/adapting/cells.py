"""Programs in places, with fixed numbers of threads and adaptive: work done a second."""
import os, shutil, subprocess, sys, time
from .places import CPUS, PLACES, TARGET, place

SECONDS = 1.5
PRELOAD = os.path.abspath(f"{TARGET}/libcorun_preload.so")
SOURCE = os.path.join(os.path.dirname(__file__), "../../crates/corun-preload/tests/c/throughput.c")
WIDTHS = sorted({1, max(CPUS // 2, 1), CPUS})


class Program:
    """A command that prints its work a second. `threads` in its arguments is a number, or "adaptive"."""

    def __init__(self, name, argv, environment=None, fixed=None):
        self.name, self.argv, self.environment = name, argv, environment or {}
        self.fixed = fixed or {}

    def run(self, threads, enter):
        environment = {**os.environ, **self.environment}
        if threads == "adaptive":
            environment |= {"LD_PRELOAD": PRELOAD, "CORUN_ADAPT": "on"}
        else:
            environment |= {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        argv = [word.format(threads=threads, seconds=SECONDS) for word in self.argv]
        done = subprocess.run(argv, env=environment, preexec_fn=enter, stdout=subprocess.PIPE, text=True, timeout=20 * SECONDS, check=True)
        return float(done.stdout)


def compiled(folder, name, compiler, *flags):
    """The path of the program in C, or `None` where it cannot be compiled here, which it says."""
    path = os.path.join(folder, name)
    done = shutil.which(compiler) and subprocess.run([compiler, "-O2", SOURCE, "-o", path, *flags], stderr=subprocess.DEVNULL)
    if not done or done.returncode:
        print(f"left out: {compiler} cannot compile with {' '.join(flags)} here", file=sys.stderr)
        return None
    return path


def programs(folder):
    kernels = os.path.abspath(f"{TARGET}/examples/kernels")
    in_c = [("OpenMP (libgomp), active", "gcc", ["-fopenmp"], {"OMP_WAIT_POLICY": "active"}),
            ("OpenMP (libgomp), passive", "gcc", ["-fopenmp"], {"OMP_WAIT_POLICY": "passive"}),
            ("OpenMP (LLVM)", "clang", ["-fopenmp"], {}),
            ("OpenBLAS", "gcc", ["-lopenblas"], {})]
    for number, (name, compiler, flags, environment) in enumerate(in_c):
        path = compiled(folder, f"program-{number}", compiler, *flags)
        if path:
            yield Program(name, [path, "{seconds}"], environment)
    yield Program("rayon", [kernels, "rayon", "{threads}", "{seconds}"])
    yield Program("corun-pdes (LADM)", [kernels, "engine", "{threads}", "{seconds}"])


def cells(folder, only):
    for program in programs(folder):
        if only not in program.name:
            continue
        for where in PLACES:
            for threads in [*WIDTHS, "adaptive"]:
                with place(where) as (enter, used):
                    begin = time.monotonic()
                    rate = program.run(threads, enter)
                    took = time.monotonic() - begin
                yield {"program": program.name, "place": where, "threads": threads, "rate": rate, "neighbours": sum(used) / took}
