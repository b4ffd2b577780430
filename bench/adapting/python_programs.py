"""Python programs and x264, which print their work per second: `python_programs.py PROGRAM THREADS|adaptive SECONDS [CLIP]`.

The number of threads comes from the environment (`OMP_NUM_THREADS`) or, for some programs, from the command line. A program that adapts
gets neither: it starts its default number of threads. Starting, reading and the first steps do not count.
"""
import ctypes, importlib.util, os, subprocess, sys, time


def scikit_learn(_):
    """A fit of three boosted trees: OpenMP, a region for each step of each tree."""
    import numpy
    from sklearn.ensemble import HistGradientBoostingRegressor
    random = numpy.random.default_rng(1)
    x = random.standard_normal((20_000, 20))
    y = x[:, 0] * x[:, 1] + random.standard_normal(len(x))
    return lambda: HistGradientBoostingRegressor(max_iter=3, early_stopping=False).fit(x, y)


def lightgbm(_):
    """One boosted tree: OpenMP, a region for each step of each tree."""
    import lightgbm
    import numpy
    random = numpy.random.default_rng(1)
    x = random.standard_normal((50_000, 20))
    y = x[:, 0] * x[:, 1] + random.standard_normal(len(x))
    booster = lightgbm.Booster({"objective": "regression", "verbosity": -1}, lightgbm.Dataset(x, y))
    return booster.update


class GgmlParameters(ctypes.Structure):
    """`ggml_init_params`: ggml allocates the memory itself, for tensors with their data."""
    _fields_ = [("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]


def library(package, path):
    """Return the path of a library in a package, without importing the package."""
    found = importlib.util.find_spec(package)
    if not found:
        raise ModuleNotFoundError(f"No module named {package!r}")
    return ctypes.CDLL(os.path.join(*found.submodule_search_locations, path))


def products(base, cpu, threads):
    """A chain of products on ggml, as in a small language model, with a barrier after each."""
    def function(library, name, *types):
        found = getattr(library, name)
        found.restype, found.argtypes = ctypes.c_void_p, types
        return found
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    context = function(base, "ggml_init", GgmlParameters)(GgmlParameters(256 << 20, None, False))
    new_tensor = function(base, "ggml_new_tensor_2d", pointer, ctypes.c_int, size, size)
    set_all = function(cpu, "ggml_set_f32", pointer, ctypes.c_float)
    multiply = function(base, "ggml_mul_mat", pointer, pointer, pointer)
    graph = function(base, "ggml_new_graph", pointer)(context)
    # 0 is the type of 32-bit floats.
    weights = [set_all(new_tensor(context, 0, 512, 512), 1e-3) for _ in range(4)]
    x = set_all(new_tensor(context, 0, 512, 8), 1)
    for layer in range(64):
        x = multiply(context, weights[layer % len(weights)], x)
    function(base, "ggml_build_forward_expand", pointer, pointer)(graph, x)
    compute = function(cpu, "ggml_graph_compute_with_ctx", pointer, pointer, ctypes.c_int)
    number = os.cpu_count() if threads == "adaptive" else int(threads)
    return lambda: compute(context, graph, number)


def ggml_with_openmp(threads):
    """The present build of llama.cpp: threads of libgomp."""
    base, cpu = (library("llama_cpp_py_sync", f"libggml-{name}.so.0") for name in ("base", "cpu"))
    cpu.ggml_cpu_init()
    return products(base, cpu, threads)


def ggml_with_its_own_threads(threads):
    """The build without OpenMP: its own threads, which wait actively."""
    ggml = library("ctransformers", "lib/avx2/libctransformers.so")
    return products(ggml, ggml, threads)


def x264(threads, clip):
    """Encode a clip: its own threads wait for rows of each other's frames."""
    argv = ["x264", "--quiet", "--no-progress", "--preset", "fast", "--input-res", "640x360", "--fps", "25", "-o", "/dev/null", clip]
    if threads != "adaptive":
        argv += ["--threads", threads]
    return lambda: subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


FRAMES = 40


def make_clip(path):
    """Make frames of digits, which are neither equal nor noise."""
    size = FRAMES * 640 * 360 * 3 // 2
    text = "\n".join(map(str, range(size // 6)))
    with open(path, "w") as file:
        file.write((text * 2)[:size])


PROGRAMS = {"scikit-learn": scikit_learn, "lightgbm": lightgbm, "ggml-openmp": ggml_with_openmp, "ggml": ggml_with_its_own_threads, "x264": x264}


# Nothing is known in the first moments of a program. Another measurement shows how soon it adapts.
WARM_UP = 0.3


def rate_over(step, seconds):
    """Return steps per second over this time, for at least one step."""
    begin, done = time.monotonic(), 0
    while not done or time.monotonic() < begin + seconds:
        step()
        done += 1
    return done / (time.monotonic() - begin)


def main(program, threads, seconds, *given):
    step = PROGRAMS[program](threads, *given)
    rate_over(step, WARM_UP)
    print(rate_over(step, float(seconds)))


if __name__ == "__main__":
    main(*sys.argv[1:])
