"""The parts of `bench/verify.py`: a file for each kind of run, the statistics, and the record."""
