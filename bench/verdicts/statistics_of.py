"""Exact bounds, and the test of a gate."""
import math, statistics

# A gate for 5 % calls a benchmark slower if the difference is significant at 5 % and more than half of that. So both errors, to miss 5 % and
# to see 5 % in equal runs, are equally far away.
SOUGHT, SIGNIFICANCE = 0.05, 0.05


def at_most(count, of, confidence=0.95):
    """Return Clopper and Pearson's upper bound of a share (two-sided)."""
    if count >= of:
        return 1.0
    tail = lambda p: sum(math.comb(of, k) * p**k * (1 - p)**(of - k) for k in range(count + 1))
    low, high = count / max(of, 1), 1.0
    for _ in range(60):
        mid = (low + high) / 2
        low, high = (mid, high) if tail(mid) > (1 - confidence) / 2 else (low, mid)
    return high


def at_least(count, of):
    """Return the lower bound."""
    return 1 - at_most(of - count, of) if of else 0.0


def is_slower(a, b):
    """Return whether the second is slower: by Welch's one-sided test, and by that test plus the size. `None` if one has too few iterations."""
    if not a or not b or min(a["count"], b["count"]) < 3:
        return None
    difference = b["mean_s"] - a["mean_s"]
    va, vb = (x["deviation_s"] ** 2 / x["count"] for x in (a, b))
    if va + vb == 0:
        is_significant = difference > 0
    else:
        t = difference / math.sqrt(va + vb)
        freedom = (va + vb) ** 2 / (va**2 / (a["count"] - 1) + vb**2 / (b["count"] - 1))
        # Student's t from the normal distribution (Wallace 1959): exact to a few thousandths from 3 degrees on.
        z = math.copysign((8 * freedom + 1) / (8 * freedom + 3) * math.sqrt(freedom * math.log(1 + t * t / freedom)), t)
        is_significant = z > statistics.NormalDist().inv_cdf(1 - SIGNIFICANCE)
    return is_significant, is_significant and difference > SOUGHT / 2 * a["mean_s"]
