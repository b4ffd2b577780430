"""Exact bounds, and the test that a gate makes."""
import math, statistics

# A gate that is to find 5 % calls a benchmark slower if the difference is significant at 5 % and more than half of what is sought: then
# both mistakes, to see nothing in 5 % and to see 5 % in nothing, are as far away.
SOUGHT, SIGNIFICANCE = 0.05, 0.05


def at_most(count, of, confidence=0.95):
    """Clopper and Pearson's upper bound of a share, both sides together."""
    if count >= of:
        return 1.0
    tail = lambda p: sum(math.comb(of, k) * p**k * (1 - p)**(of - k) for k in range(count + 1))
    low, high = count / max(of, 1), 1.0
    for _ in range(60):
        mid = (low + high) / 2
        low, high = (mid, high) if tail(mid) > (1 - confidence) / 2 else (low, mid)
    return high


def at_least(count, of):
    """The lower bound of the same."""
    return 1 - at_most(of - count, of) if of else 0.0


def is_slower(a, b):
    """Is the second slower? By Welch's one-sided test, and by that together with how much. `None`: one has too few iterations."""
    if not a or not b or min(a["count"], b["count"]) < 3:
        return None
    difference = b["mean_s"] - a["mean_s"]
    va, vb = (x["deviation_s"] ** 2 / x["count"] for x in (a, b))
    if va + vb == 0:
        is_significant = difference > 0
    else:
        t = difference / math.sqrt(va + vb)
        freedom = (va + vb) ** 2 / (va**2 / (a["count"] - 1) + vb**2 / (b["count"] - 1))
        # Student's t by the normal distribution (Wallace 1959): to a few thousandths from 3 degrees on.
        z = math.copysign((8 * freedom + 1) / (8 * freedom + 3) * math.sqrt(freedom * math.log(1 + t * t / freedom)), t)
        is_significant = z > statistics.NormalDist().inv_cdf(1 - SIGNIFICANCE)
    return is_significant, is_significant and difference > SOUGHT / 2 * a["mean_s"]
