"""Tags the wheel for one kind of machine, since it contains the library, and for every Python 3, since it does not use Python's ABI."""

import os

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel

HAS_LIBRARY = os.path.exists(os.path.join(os.path.dirname(os.path.abspath(__file__)), "corun", "libcorun.so.1"))


class Wheel(bdist_wheel):
    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = not HAS_LIBRARY

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


setup(cmdclass={"bdist_wheel": Wheel})
