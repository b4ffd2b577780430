"""Tests of the package with the library in CORUN_LIBRARY. The tests of libcorun run them."""

import ctypes
import os
import subprocess
import sys
import types
import unittest
from unittest import mock

import corun


def python(code, **environment):
    """Return the output of a fresh interpreter, or the last line of its error."""
    environment = {**os.environ, **environment}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    return done.stdout.strip() if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


class Corun(unittest.TestCase):
    def test_the_answer_is_within_the_machine(self):
        most = len(os.sched_getaffinity(0))
        answer = corun.cpus()
        self.assertIn(answer.threads, range(1, most + 1))
        self.assertIn(corun.threads(), range(1, most + 1))
        self.assertGreaterEqual(answer.available, 0)
        self.assertLessEqual(answer.available, most)
        self.assertIn("available", answer.reason)

    def test_a_forked_child_asks_anew(self):
        corun.cpus()
        child = os.fork()
        if child == 0:
            try:
                os._exit(0 if corun.cpus().threads >= 1 else 1)
            finally:
                os._exit(2)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_who_does_not_adapt_has_all_cpus(self):
        printed = python("import corun; print(corun.threads())", CORUN_ADAPT="off")
        self.assertEqual(int(printed), len(os.sched_getaffinity(0)))

    def test_what_is_wrong_is_one_sentence(self):
        for environment in ({"CORUN_LIBRARY": "/does/not/exist"}, {"CORUN_ADAPT": "perhaps"}):
            printed = python("import corun; corun.cpus()", **environment)
            self.assertTrue(printed.startswith("corun.Error: "), printed)

    def test_a_library_of_another_version_is_refused(self):
        printed = python("import corun; corun._ABI = 2; corun.cpus()")
        self.assertTrue(printed.startswith("corun.Error: "), printed)

    def test_limits_hold_inside_and_not_after(self):
        holds = []

        class Limits:
            def __init__(self, limits):
                self.limits = limits

            def __enter__(self):
                holds.append(self.limits)

            def __exit__(self, *_):
                holds.append(None)

        pools = [{"prefix": "libgomp", "num_threads": 64}, {"prefix": "libopenblas", "num_threads": 64},
                 {"prefix": "libopenblas", "num_threads": 1}]
        stand_in = types.SimpleNamespace(threadpool_limits=Limits, threadpool_info=lambda: pools)
        with mock.patch.dict(sys.modules, threadpoolctl=stand_in):
            with corun.limits() as number:
                # A pool with one thread keeps it.
                self.assertEqual(holds, [{"libgomp": number, "libopenblas": 1}])
            self.assertEqual(holds[1:], [None])
        with mock.patch.dict(sys.modules, threadpoolctl=None), self.assertRaises(corun.Error):
            with corun.limits():
                self.fail("there is no threadpoolctl")

    def test_limits_hold_for_a_real_library(self):
        try:
            import threadpoolctl  # noqa: F401
            openmp = ctypes.CDLL("libgomp.so.1")
        except (ImportError, OSError) as error:
            print(f"skipped: {error}")
            return
        openmp.omp_set_num_threads(64)
        with corun.limits() as number:
            self.assertEqual(openmp.omp_get_max_threads(), number)
        self.assertEqual(openmp.omp_get_max_threads(), 64)


if __name__ == "__main__":
    unittest.main()
