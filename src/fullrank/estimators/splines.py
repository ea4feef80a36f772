"""Rank distributions that are splines in log-rank, and the mode of their posterior under a Gaussian prior.

The family is π_R ∝ exp(s(x))/R with x = log R / log N and s a cubic spline with coefficients β. Several strata of cases, the
(j, T) of users with several targets, have a spline each; a joint Gaussian prior ties their coefficients together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fullrank._types import FloatArray
from fullrank.estimators._grid import Grid

#: Newton steps after which a mode counts as not found.
MOST_STEPS = 60
#: A coefficient moves no further in one step, and no further by what the mode under another prior says.
FURTHEST, FURTHEST_AT_ONCE = 4.0, 20.0


@dataclass(frozen=True, eq=False)
class SplineModel:
    """The family on a grid: log π = base + Bβ − log Σ, where base is the mass of 1/R in each cell."""

    B: FloatArray
    base: FloatArray
    n_items: float

    @classmethod
    def on(cls, grid: Grid, coefficients: int) -> "SplineModel":
        """Evaluate the basis at the geometric middle of every cell."""
        N = max(float(grid.hi[-1]), 2.0)
        x = 0.5 * (np.log(grid.lo) + np.log(grid.hi)) / np.log(N)
        base = np.log(np.log((grid.hi + 0.5) / (grid.lo - 0.5)))
        return cls(spline_basis(x, coefficients), base, N)

    def mass(self, β: FloatArray) -> FloatArray:
        """Return π for one β, or a row of π for each row of β."""
        log = β @ self.B.T
        log += self.base
        log -= log.max(axis=-1, keepdims=True)
        mass = np.exp(log, out=log)
        mass /= mass.sum(axis=-1, keepdims=True)
        return np.asarray(mass)


def spline_basis(x: FloatArray, size: int) -> FloatArray:
    """Return cubic B-splines on uniform knots over 0..1, one column per coefficient (Cox-de Boor)."""
    intervals = size - 3
    position = np.clip(x, 0.0, 1.0) * intervals
    first = np.minimum(position.astype(np.int64), intervals - 1)
    t = position - first
    pieces = ((1 - t) ** 3, 3 * t**3 - 6 * t**2 + 4, -3 * t**3 + 3 * t**2 + 3 * t + 1, t**3)
    out = np.zeros((len(x), size))
    for offset, piece in enumerate(pieces):
        out[np.arange(len(x)), first + offset] = piece / 6
    return out


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What was seen: the law of every outcome in each cell, and how often each stratum of cases had it."""

    A: FloatArray  # cells × outcomes
    seen: FloatArray  # strata × outcomes

    @cached_property
    def parts(self) -> list[tuple[FloatArray, FloatArray]]:
        """The outcomes that a stratum has seen, and how often, stratum by stratum."""
        return [(self.A[:, row > 0], row[row > 0]) for row in self.seen]


@dataclass(frozen=True, eq=False)
class Mode:
    """The most likely coefficients (strata × coefficients) and the curvature there."""

    β: FloatArray
    root: FloatArray  # lower Cholesky factor of the negative Hessian
    value: float  # log-likelihood and log-prior, without the prior's constant
    steps: int

    @property
    def converged(self) -> bool:
        """Whether Newton's method came to rest."""
        return self.steps < MOST_STEPS

    @property
    def log_det(self) -> float:
        """Log-determinant of the negative Hessian."""
        return 2 * float(np.log(np.diag(self.root)).sum())

    def moved(self, μ: FloatArray, Q: FloatArray, to_μ: FloatArray, to_Q: FloatArray) -> FloatArray:
        """Return about where the mode is under another Gaussian prior than the one it was found under.

        Near the mode the likelihood is taken to be a Gaussian, whose slope there is the prior's.
        """
        from scipy.linalg.lapack import dposv

        pull = Q @ (self.β - μ).ravel() - to_Q @ (self.β - to_μ).ravel()
        _, move, failed = dposv(self.root @ self.root.T - Q + to_Q, pull, lower=1)
        if failed or np.abs(move).max() > FURTHEST_AT_ONCE:
            return self.β
        return np.asarray(self.β + move.reshape(self.β.shape))


def posterior_mode(model: SplineModel, data: Outcomes, μ: FloatArray, Q: FloatArray, start: FloatArray) -> Mode:
    """Maximise Σ c_o log P(o | β) − ½(β−μ)ᵀQ(β−μ) over the coefficients of all strata, by damped Newton.

    ``μ`` and ``start`` are strata × coefficients, ``Q`` is the precision of all of them in a row. The Hessian is that of the
    complete data less the missing information; where it is not positive definite (far from the mode) the Fisher information
    of the outcomes takes its place.
    """
    from scipy.linalg.lapack import dpotrf, dpotrs  # SciPy's cholesky takes as long again to call them

    size = model.B.shape[1]
    parts = data.parts
    M = data.seen.sum()

    def value(β: FloatArray) -> tuple[float, FloatArray]:
        π = model.mass(β)
        log = sum(float(seen @ np.log(np.maximum(row @ A, 1e-300))) for row, (A, seen) in zip(π, parts, strict=True))
        left = (β - μ).ravel()
        return log - 0.5 * float(left @ Q @ left), π

    β = start
    now, π = value(β)
    # The value is a sum over M cases and known to so many digits only. With very many cases the likelihood is a narrow bent
    # valley, along which a tenth of a standard error is near enough. The last step, when Newton is all but there, is taken
    # without looking.
    rounding = 1e-10 + 1e-13 * abs(now)
    enough = 1e-3 * len(β) + 1e-10 * M
    root = np.empty(0)
    step = 0
    for step in range(1, MOST_STEPS + 1):  # noqa: B007 - reported afterwards
        gradient, exact, fisher = _slopes(model, parts, π)
        gradient = gradient.ravel() - Q @ (β - μ).ravel()
        root, failed = dpotrf(_with_blocks(Q, exact, size), lower=1)
        if failed:
            root, failed = dpotrf(_with_blocks(Q, fisher, size), lower=1)
        if failed:
            raise np.linalg.LinAlgError("the information of a spline is not positive definite.")
        move = dpotrs(root, gradient, lower=1)[0]
        decrement = float(gradient @ move)
        move = move.reshape(β.shape)
        if decrement < enough:
            β, now = β + move, now + decrement / 2
            break
        length = min(1.0, FURTHEST / max(float(np.abs(move).max()), 1e-12))
        while True:
            then, π_then = value(β + length * move)
            if then >= now - rounding or length < 1e-6:
                break
            length /= 2
        β, now, π = β + length * move, then, π_then
    return Mode(β, root, now, step)


def _slopes(
    model: SplineModel, parts: Sequence[tuple[FloatArray, FloatArray]], π: FloatArray
) -> tuple[FloatArray, list[FloatArray], list[FloatArray]]:
    """Return the gradient of the log-likelihood, and its negative Hessian and Fisher information for each stratum."""
    B = model.B
    gradient = np.zeros((len(π), B.shape[1]))
    exact, fisher = [], []
    for row, (A, seen) in enumerate(parts):
        mass, M = π[row], float(seen.sum())
        likely = np.maximum(mass @ A, 1e-300)
        mean = mass @ B
        pull = mass * (A @ (seen / likely))  # expected number of cases in each cell, given what was seen
        pulled = pull @ B
        gradient[row] = pulled - M * mean
        per_outcome = (A.T @ (B * mass[:, None])) / likely[:, None] - mean
        information = (per_outcome * seen[:, None]).T @ per_outcome
        cross = np.outer(mean, gradient[row])
        fisher.append(information)
        exact.append(information + (B * (M * mass - pull)[:, None]).T @ B + cross + cross.T)
    return gradient, exact, fisher


def _with_blocks(Q: FloatArray, blocks: Sequence[FloatArray], size: int) -> FloatArray:
    """Return Q with a symmetric block added for each stratum."""
    H = Q.copy()
    for row, block in enumerate(blocks):
        here = slice(row * size, (row + 1) * size)
        H[here, here] += (block + block.T) / 2
    return H


def em_step(π: FloatArray, A: FloatArray, seen: FloatArray) -> FloatArray:
    """Take one EM step (jin21 eq. 21) from one π, or from each row of π: the mean posterior of the cases."""
    likely = np.maximum(π @ A, 1e-300)
    after = π * ((seen / likely) @ A.T)
    return np.asarray(after / after.sum(axis=-1, keepdims=True))


def balanced_normals(number: int, size: int, rng: np.random.Generator) -> FloatArray:
    """Draw normal vectors in pairs ±z; where there are enough of them, their covariance is the unit matrix itself."""
    half = rng.standard_normal(((number + 1) // 2, size))
    if len(half) > size:
        half = half @ np.linalg.inv(np.linalg.cholesky(half.T @ half / len(half))).T
    return np.concatenate([half, -half])[:number]
