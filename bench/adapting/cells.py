"""Programs in places, with fixed numbers of threads and adaptive: work per second."""
import os, shutil, subprocess, sys, time
from . import python_programs
from .places import CPUS, PLACES, TARGET, place

SECONDS = 2
HERE = os.path.dirname(__file__)
PRELOAD = os.path.abspath(f"{TARGET}/libcorun_preload.so")
SOURCE = os.path.join(HERE, "../../crates/corun-preload/tests/c/throughput.c")
WIDTHS = sorted({1, max(CPUS // 2, 1), CPUS})
# The interpreter with the packages of the Python programs.
PYTHON = os.environ.get("ADAPT_PYTHON", sys.executable)


class Program:
    """A command that prints its work per second. `threads` in its arguments is a number, or "adaptive"."""

    def __init__(self, name, argv, environment=None, hooks=None):
        self.name, self.argv, self.environment, self.hooks = name, argv, environment or {}, hooks or {}

    def run(self, threads, enter):
        environment = {**os.environ, **self.environment}
        if threads == "adaptive":
            environment |= {"LD_PRELOAD": PRELOAD, "CORUN_ADAPT": "on", **self.hooks}
        else:
            environment |= {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        argv = [word.format(threads=threads, seconds=SECONDS) for word in self.argv]
        done = subprocess.run(argv, env=environment, preexec_fn=enter, stdout=subprocess.PIPE, text=True, timeout=40 * SECONDS, check=True)
        return float(done.stdout)


def left_out(name, why):
    print(f"left out: {name}: {why}", file=sys.stderr)


def compiled(folder, name, compiler, *flags):
    """Compile a C program and return its path. Return `None`, after a message, if that fails here."""
    path = os.path.join(folder, name.replace(" ", "-"))
    done = shutil.which(compiler) and subprocess.run([compiler, "-O2", SOURCE, "-o", path, *flags], stderr=subprocess.DEVNULL)
    if not done or done.returncode:
        left_out(name, f"{compiler} cannot compile with {' '.join(flags)} here")
        return None
    return path


def in_python(name, program, package, **hooks):
    """Return a Python program with its hooks. Return `None`, after a message, if it does not run here."""
    argv = [PYTHON, python_programs.__file__, program]
    tried = subprocess.run([*argv, "1", "0"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if tried.returncode:
        said = tried.stderr.strip().splitlines()[-1]
        return left_out(name, f"{said} (it is in the package {package} of the Python that ADAPT_PYTHON names)")
    return Program(name, [*argv, "{threads}", "{seconds}"], hooks=hooks)


def programs(folder, only):
    kernels = os.path.abspath(f"{TARGET}/examples/kernels")
    in_c = [("OpenMP (libgomp), active", "gcc", ["-fopenmp"], {"OMP_WAIT_POLICY": "active"}),
            ("OpenMP (libgomp), passive", "gcc", ["-fopenmp"], {"OMP_WAIT_POLICY": "passive"}),
            ("OpenMP (LLVM)", "clang", ["-fopenmp"], {}),
            ("OpenBLAS", "gcc", ["-lopenblas"], {})]
    for name, compiler, flags, environment in in_c:
        path = only in name and compiled(folder, name, compiler, *flags)
        if path:
            yield Program(name, [path, "{seconds}"], environment)
    for name, kernel in (("rayon", "rayon"), ("corun-pdes (LADM)", "engine")):
        if only in name:
            yield Program(name, [kernels, kernel, "{threads}", "{seconds}"])
    clauses, count = {"CORUN_ADAPT_CLAUSES": "1"}, {"CORUN_ADAPT_COUNT": "1"}
    for name, program, package, hooks in (("scikit-learn", "scikit-learn", "scikit-learn", clauses), ("LightGBM", "lightgbm", "lightgbm", clauses),
                                          ("ggml (libgomp)", "ggml-openmp", "llama-cpp-py-sync", clauses),
                                          ("ggml (its own threads)", "ggml", "ctransformers", count)):
        found = only in name and in_python(name, program, package, **hooks)
        if found:
            yield found
    if only not in "x264":
        return
    if not shutil.which("x264"):
        return left_out("x264", "it is not installed")
    clip = os.path.join(folder, "clip.yuv")
    python_programs.make_clip(clip)
    yield Program("x264", [sys.executable, python_programs.__file__, "x264", "{threads}", "{seconds}", clip])


def cells(folder, only):
    for program in programs(folder, only):
        for where in PLACES:
            for threads in [*WIDTHS, "adaptive"]:
                with place(where) as (enter, used):
                    begin = time.monotonic()
                    rate = program.run(threads, enter)
                    took = time.monotonic() - begin
                yield {"program": program.name, "place": where, "threads": threads, "rate": rate, "neighbours": sum(used) / took}
