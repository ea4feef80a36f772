"""How fast estimators are, how much memory they take, and how that compares with the authors' form in dense NumPy.

    python benchmarks/estimators.py [--quick]

Counts are drawn by one multinomial, so that ten million cases cost nothing to make. Every fit runs in a process of its own:
its peak memory is that of the process, interpreter and libraries included. Targets are for the
time of the first fit; where its CPU time is far below, the machine was busy with something else.

The dense references hold one row per user (EM) or the whole N × n matrix, as the published notebooks do; they see the same cases, and their NDCG@10 must be the same.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import resource
import subprocess
import sys
import time

import numpy as np

ESTIMATORS = ("MLE()", "MaxEntropy()", "BiasVariance()", "Multinomial()")
#: name, items, negatives, cases, seconds allowed, megabytes allowed
SETTINGS = (
    ("N = 10⁸, 999 negatives, 10⁷ cases", 10**8, 999, 10**7, 2.0, 1000),
    ("N = 25,815, 499 negatives, 25,677 cases", 25_815, 499, 25_677, 0.3, None),
    ("N = 3,706, 99 negatives, 6,040 cases", 3_706, 99, 6_040, None, None),
)
#: Estimators with several targets per user, and seconds allowed for a fit and nine intervals.
SEVERAL = (("LogSpline()", 2.0), ("MLE()", 10.0))
QUICK = (
    ("N = 10⁸, 99 negatives, 10⁵ cases", 10**8, 99, 10**5, 2.0, 1000),
    ("N = 1,000, 49 negatives, 2,000 cases", 1_000, 49, 2_000, None, None),
)


def outcome_shares(n_items: int, negatives: int, a: float = 0.3) -> np.ndarray:
    """Shares of sampled ranks when (R−1)/(N−1) follows Beta(a, 1): C(m, x) a B(a+x, m−x+1)."""
    from scipy.special import gammaln

    x = np.arange(negatives + 1)
    log = gammaln(negatives + 1) - gammaln(x + 1) + gammaln(x + a) - gammaln(negatives + 1 + a)
    share = a * np.exp(log)
    return share / share.sum()


def ready_counts(n_items: int, negatives: int, cases: int, blocks: int = 256):
    """Counts of ``cases`` cases spread over user blocks, without making the cases."""
    import fullrank as fr

    share = outcome_shares(n_items, negatives)
    times = np.random.default_rng(0).multinomial(cases, np.tile(share / blocks, blocks))
    hits, users = np.tile(np.arange(negatives + 1), blocks), np.repeat(np.arange(blocks), negatives + 1)
    seen = times > 0
    counts = fr.RankCounts.from_outcomes(
        np.full(seen.sum(), negatives),
        hits[seen],
        n_items,
        fr.Sample(negatives),
        users=users[seen],
        weights=times[seen],
    )
    number = np.round(counts.weight).astype(np.int64)  # each row stands for that many cases
    return dataclasses.replace(counts, cases=number, scored=number * negatives)


def peak_memory() -> float:
    """Megabytes at most held by this process. Linux tells since the program began; elsewhere the parent's may count."""
    try:
        with open("/proc/self/status", encoding="utf-8") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1024**2)


def one(estimator: str, n_items: int, negatives: int, cases: int) -> None:
    """In a process of its own: print seconds of the first and the best of three fits, and the peak memory."""
    import fullrank as fr

    counts = ready_counts(n_items, negatives, cases)
    before = peak_memory()
    seconds, work = [], []
    for _ in range(3):
        begin, worked = time.perf_counter(), time.process_time()
        fitted = eval(estimator, vars(fr)).fit(counts)
        value = fitted.expect("ndcg@10")
        seconds.append(time.perf_counter() - begin)
        work.append(time.process_time() - worked)
    print(
        json.dumps(
            {
                "first": seconds[0],
                "best": min(seconds),
                "cpu": work[0],
                "peak": peak_memory(),
                "before": before,
                "value": value,
            }
        )
    )


def several_counts(cases: int = 20_000, n_items: int = 1_700):
    """Sampled ranks of users with one to fourteen targets each, 105 (j, T) in all, among pools of their own."""
    import fullrank as fr

    rng = np.random.default_rng(0)
    targets = rng.integers(1, 15, size=cases)
    targets = targets[np.cumsum(targets) <= cases]
    user = np.repeat(np.arange(len(targets)), targets)
    T = targets[user]
    place = np.arange(len(user)) - (np.cumsum(targets) - targets)[user]
    pool = (n_items - rng.gamma(1.5, 100, size=len(targets)).astype(np.int64).clip(10, n_items // 2))[user]
    share = rng.random(len(user)) ** (1 / 0.3)  # Beta(0.3, 1), and a user's targets in order
    share = share[np.lexsort((share, user))]
    ranks = 1 + rng.binomial(99, share)
    return fr.RankCounts.from_ranks(ranks, pool, "uni99", users=user, order=place + 1, targets=T)


def one_of_several(estimator: str) -> None:
    """In a process of its own: print seconds of a fit and nine intervals, for the cases and for the population."""
    import fullrank as fr

    counts = several_counts()
    metrics = [f"{name}@{k}" for name in ("recall", "ndcg", "ap") for k in (5, 10, 20)]
    begin, worked = time.perf_counter(), time.process_time()
    fitted = eval(estimator, vars(fr)).fit(counts)
    found = {"fit": time.perf_counter() - begin}
    for metric in metrics:
        fitted.interval(metric)
    found |= {"cases": time.perf_counter() - begin, "cpu": time.process_time() - worked}
    for metric in metrics:
        fitted.interval(metric, target="population")
    print(json.dumps({**found, "population": time.perf_counter() - begin}))


def several() -> list[str]:
    """Print the seconds of estimators on several targets per user; return what missed its target."""
    print("\n20,000 cases with 105 (j, T), 99 negatives: a fit and nine intervals\n")
    print("| estimator | fit | and intervals for the cases | its CPU time | and for the population | target |")
    print("|---|---|---|---|---|---|")
    missed = []
    for estimator, allowed in SEVERAL:
        found = run("--several", estimator)
        slow = found["cases"] > allowed
        missed += [f"{estimator}, several targets"] * slow
        print(
            f"| {estimator} | {found['fit']:.2f} s | {found['cases']:.2f} s | {found['cpu']:.2f} s "
            f"| {found['population']:.2f} s | {allowed:g} s{' **missed**' * slow} |",
            flush=True,
        )
    return missed


def measured(estimator: str, n_items: int, negatives: int, cases: int) -> dict[str, float]:
    return run("--one", estimator, str(n_items), str(negatives), str(cases))


def run(*arguments: str) -> dict[str, float]:
    """What this script prints in a process of its own."""
    command = [sys.executable, os.path.abspath(__file__), *arguments]
    out = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(out.stdout.splitlines()[-1])


# ------------------------------------------------------------------------------------------------ the authors' form, dense


def dense_law(n_items: int, negatives: int) -> np.ndarray:
    from scipy import stats

    theta = np.arange(n_items) / (n_items - 1)
    return stats.binom.pmf(np.arange(negatives + 1)[None, :], negatives, theta[:, None])


def dense(estimator: str, n_items: int, negatives: int, cases: int) -> tuple[float, str, float | None] | None:
    """Seconds of the straightforward form, a remark, and its NDCG@10 (the same cases); None where it is out of reach."""
    seen, weight = ready_counts(n_items, negatives, cases).sampled_ranks()
    ranks = np.repeat(seen - 1, np.round(weight).astype(np.int64))
    begin = time.perf_counter()
    A = dense_law(n_items, negatives)
    made = time.perf_counter() - begin
    P = np.full(n_items, 1 / n_items)
    begin = time.perf_counter()
    if estimator == "MLE()":
        # one responsibility vector per user, in blocks that fit into memory
        steps, block = (100, 2000) if n_items * cases < 5e7 else (1, 500)
        pi = P.copy()
        for _ in range(steps):
            new = np.zeros(n_items)
            for first in range(0, cases, block):
                joint = A[:, ranks[first : first + block]].T * pi
                joint /= joint.sum(1, keepdims=True)
                new += joint.sum(0)
            pi = new / cases
        seconds = made + (time.perf_counter() - begin) * (100 / steps)
        return (seconds, "", ndcg(pi)) if steps == 100 else (seconds, "one step measured, times 100", None)
    p = np.bincount(ranks, minlength=negatives + 1) / cases
    if estimator == "BiasVariance()":
        gram = 0.99 * A.T @ (P[:, None] * A) + 0.01 * np.diag(P @ A)
    elif estimator == "Multinomial()":
        gram = A.T @ (P[:, None] * A) - A.T @ A / cases + np.diag(A.sum(0)) / cases
    else:
        try:
            import cvxpy as cp
        except ImportError:
            return None
        if n_items > 5000:
            return None
        pi = cp.Variable(n_items, nonneg=True)
        seen = p > 0
        fit = cp.sum_squares(cp.multiply(np.sqrt(p[seen]), A.T[seen] @ pi - p[seen]))
        cp.Problem(cp.Minimize(fit - 0.001 * cp.sum(cp.entr(pi))), [cp.sum(pi) == 1]).solve(solver=cp.CLARABEL)
        return made + time.perf_counter() - begin, "cvxpy, Clarabel", ndcg(pi.value)
    mass = ((p @ np.linalg.inv(gram)) @ A.T) * P
    return made + time.perf_counter() - begin, "", ndcg(mass)


def ndcg(mass: np.ndarray) -> float:
    return float(mass[:10] @ (1 / np.log2(np.arange(2, 12))))


def machine() -> str:
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            name = next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{name}, {os.cpu_count()} cores, Python {platform.python_version()}, NumPy {np.__version__}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Time and memory of the estimators, against the authors' form.")
    parser.add_argument("--quick", action="store_true", help="small settings, seconds in all")
    parser.add_argument("--one", nargs=4, metavar=("ESTIMATOR", "ITEMS", "NEGATIVES", "CASES"), help=argparse.SUPPRESS)
    parser.add_argument("--several", metavar="ESTIMATOR", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.several:
        one_of_several(options.several)
        return
    if options.one:
        one(options.one[0], *(int(each) for each in options.one[1:]))
        return
    print(f"Machine: {machine()}, load {os.getloadavg()[0]:.1f}\n")
    print(
        "| setting | estimator | first fit | its CPU time | best of 3 | peak memory | target | dense, per user | ratio |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    missed = []
    for name, n_items, negatives, cases, allowed, memory in QUICK if options.quick else SETTINGS:
        for estimator in ESTIMATORS:
            found = measured(estimator, n_items, negatives, cases)
            peak = found["peak"]
            target = "" if allowed is None else f"{allowed:g} s" + ("" if memory is None else f", {memory} MB")
            slow = allowed is not None and found["first"] > allowed
            if slow or (memory is not None and peak > memory):
                missed.append(f"{estimator}, {name}")
                target += " **missed**"
            other = dense(estimator, n_items, negatives, cases) if n_items < 10**5 else None
            reference, ratio = "—", "—"
            if other is not None:
                reference = f"{other[0]:.3g} s" + (f" ({other[1]})" if other[1] else "")
                ratio = f"{other[0] / found['best']:.0f}×"
                if other[2] is not None and abs(other[2] - found["value"]) > 1e-3 * abs(other[2]):
                    missed.append(f"{estimator}, {name}: ndcg@10 is {found['value']:.6f}, dense {other[2]:.6f}")
            print(
                f"| {name} | {estimator} | {found['first']:.3f} s | {found['cpu']:.3f} s | {found['best']:.3f} s "
                f"| {peak:.0f} MB | {target} | {reference} | {ratio} |",
                flush=True,
            )
    if not options.quick:
        missed += several()
    if missed:
        print("\nMissed: " + "; ".join(missed))
        sys.exit(1)


if __name__ == "__main__":
    main()
