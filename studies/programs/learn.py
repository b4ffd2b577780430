"""Two learners of the studies, each with a fixed number of rounds over made-up data: `learn.py gbdt TREES` grows trees on
LightGBM's OpenMP threads, `learn.py rbm EPOCHS` trains a restricted Boltzmann machine on OpenBLAS's, which yield in a
loop while they wait. Threads and how they wait are taken from the environment."""

import sys

import numpy as np

what, rounds = sys.argv[1], int(sys.argv[2])
rng = np.random.default_rng(0)
if what == "gbdt":
    import lightgbm

    x = rng.random((100_000, 50), dtype=np.float32)
    y = (x[:, 0] + x[:, 1] * x[:, 2] > 1).astype(int)
    setting = {"objective": "binary", "num_threads": 2, "num_leaves": 63, "verbose": -1, "deterministic": True}
    lightgbm.train({**setting, "force_row_wise": True}, lightgbm.Dataset(x, y), rounds)
elif what == "rbm":
    from sklearn.neural_network import BernoulliRBM

    x = (rng.random((20_000, 784), dtype=np.float32) > 0.7).astype(np.float32)
    BernoulliRBM(256, batch_size=100, n_iter=rounds, random_state=0).fit(x)
else:
    sys.exit(f"learn.py: {what} is neither gbdt nor rbm")
