"""Fit the priors for what lies behind a compared part: how many of the rest beat the target, given what was compared.

``guided``: pairs of models (``guide_pairs.py``) at several depths; and, for guides that know nothing, true ranks of many
recommenders in a random order. ``patient``: the same where cases go on for which something is still found. ``compared``:
training items under ``all``, from files that have the rank with and without them. Each set of open cases has a spline for
every bin of what is ahead; over sets, coefficients are Gaussian about bin means that move with ``compared_trend``, fitted by
expectation maximisation with Laplace's approximation. Catalogues weigh alike.

    python benchmarks/fit_compared.py              # writes src/fullrank/estimators/hyperprior_compared.json
    python benchmarks/fit_compared.py gowalla      # prints the guided and the patient prior without a catalogue, as JSON
    python benchmarks/fit_compared.py --held-out   # whether another width, or bins less alike, would fit families left out
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

import numpy as np

from catalogues import family, rank_files, split_name
from fullrank.estimators._grid import Grid
from fullrank.estimators.hyperprior import HyperPrior, Kind, priors_to_json
from fullrank.estimators.splines import SplineModel
from fullrank.ranks.counts import LEAD_BINS, lead_bins
from guide_pairs import pairs_of

CATALOGUES = ("ml-1m", "citeulike-a", "gowalla", "foursquare-sg", "yelp-hin", "lastfm-hetrec",
              "delicious-baskets", "beibei-buy")  # fmt: skip
DEPTHS, STOPS, SETS, CHANCE_SETS = (50, 100, 200, 400, 800, 1600, 3200, 6400), (10, 50), 60, 45
COEFFICIENTS, ROUNDS = 12, 12
SCALES = ((0.8, 0.5), (1.6, 0.38), (5.0, 0.12))
SECOND = np.diff(np.eye(COEFFICIENTS), 2, axis=0)
#: Where cases go on, never deeper than this share of the catalogue: as `evaluate` has it.
DEEPEST = 0.25
#: Factors of the covariances of the patient prior's kinds: as fitted, but for popularity, behind which 93.1 % of the intervals
#: held at fixed depths on citeulike-a, gowalla and ml-1m, each left out. Behind models 98.7 % did: a guide that knows nothing
#: of a few users looks like one that knows them all, and a narrower prior would be sure of it.
PATIENT_SPREAD = {"model": 1.0, "popularity": 1.5, "chance": 1.0}
CENTRE = np.eye(COEFFICIENTS) - 1 / COEFFICIENTS
TARGET = Path(__file__).resolve().parent.parent / "src/fullrank/estimators/hyperprior_compared.json"


@dataclass(eq=False)
class Cases:
    """Open cases of one model and guide at one depth: ahead, recent, the size of the rest, and B."""

    catalogue: str
    models: str
    depth: float
    ahead: np.ndarray
    recent: np.ndarray
    rest: np.ndarray
    better: np.ndarray
    ordered: bool = True
    weight: float = 1.0
    spline: SplineModel = field(init=False)
    seen: np.ndarray = field(init=False)  # bins × cells
    trend: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        hi = [1]
        while hi[-1] < self.rest.max() + 1:
            hi.append(max(hi[-1] + 1, int(hi[-1] * 1.06)))
        tops = np.array(hi)
        grid = Grid(np.append(1, tops[:-1] + 1), tops)
        self.spline = SplineModel.on(grid, COEFFICIENTS)
        self.seen = np.zeros((LEAD_BINS, len(grid)))
        np.add.at(self.seen, (lead_bins(self.ahead, self.recent), np.searchsorted(tops, self.better + 1)), 1.0)
        if self.ordered:
            self.seen[-1] = self.seen.sum(0) / 2  # cases of which it is not known how late their hits came
        late, early = self.recent.mean() + 0.02, (self.ahead - self.recent).mean() + 0.02
        rest = self.rest.mean()
        depth = max(self.depth, 1.0)
        self.trend = np.array([np.log(rest) - 9, np.log(rest / depth) - 3, np.log(late) + 1, np.log(late / early) + 1])


def pairs_left(without: str | None) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Pairs of models of every catalogue that is not of the family of ``without``."""
    for name in CATALOGUES:
        if without is None or family(name) != family(without):
            yield name, pairs_of(name)


def ranks_left(without: str | None, rng: np.random.Generator) -> Iterator[tuple[Path, np.ndarray, np.ndarray]]:
    """True ranks and numbers of candidates of some cases of every recommender outside the family of ``without``."""
    for path in rank_files():
        if without is not None and family(split_name(path)[0]) == family(without):
            continue
        with np.load(path) as data:
            R, N = data["R_masked"].astype(int), data["N_masked"].astype(int)
        if N.min() >= 300:
            some = rng.choice(len(R), min(1500, len(R)), replace=False)
            yield path, R[some], N[some]


def of_some_catalogues(sets: list[Cases], rng: np.random.Generator) -> list[Cases]:
    """The sets of as many catalogues as one kind may have."""
    chosen = set(rng.permutation(sorted({each.catalogue for each in sets}))[:CHANCE_SETS])
    return [each for each in sets if each.catalogue in chosen]


def gone_on(first: np.ndarray, depth: int, deepest: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How deep cases are compared that go on while something beats the target in the last half; ahead and recent there.

    ``first``: the places of the first items that beat the target, cases × places.
    """
    reached = np.full(len(first), depth)
    while True:
        ahead, early = ((first <= each[:, None]).sum(1) for each in (reached, reached // 2))
        on = (ahead < STOPS[0]) & (ahead > early) & (2 * reached <= deepest)
        if not on.any():
            return reached, ahead, ahead - (first <= (reached // 4)[:, None]).sum(1)
        reached = np.where(on, 2 * reached, reached)


def sets_of_pairs(
    without: str | None, of_pair: Callable[[str, dict[str, np.ndarray], str], Iterator[Cases]]
) -> list[Cases]:
    """Some of the sets that ``of_pair`` finds behind guides that know something, as many of every catalogue."""
    rng, out = np.random.default_rng(1), []
    for name, found in pairs_left(without):
        keys = (key for key in found if key.startswith("first_") and not key.endswith("_rnd"))
        own = [each for key in keys for each in of_pair(name, found, key)]
        out += [own[place] for place in rng.choice(len(own), min(SETS, len(own)), replace=False)]
    return out


def patient_cases(name: str, found: dict[str, np.ndarray], key: str) -> Iterator[Cases]:
    """Open cases of a pair, compared as deep as something is found."""
    ranks, pool = found[f"R_{key.split('_')[1]}"], found["N"]
    deepest = DEEPEST * float(found["n_items"])
    for depth in (d for d in DEPTHS if d <= deepest):
        reached, ahead, recent = gone_on(found[key], depth, deepest)
        on = ahead < STOPS[0]
        if on.sum() >= 20:
            better = (ranks - 1 - ahead)[on]
            rest = np.maximum((pool - 1 - reached)[on], better)
            yield Cases(name, key, float(reached[on].mean()), ahead[on], recent[on], rest, better)


def patient_chance_sets(without: str | None) -> list[Cases]:
    """Open cases of real recommenders behind an order that knows nothing, compared as deep as something is found."""
    rng, out = np.random.default_rng(3), []
    for path, R, N in ranks_left(without, rng):
        depth = int(min(rng.choice((100, 200, 400, 1600)), 0.2 * N.min()))
        left, pool, reached, parts = R - 1, N - 1, np.full(len(R), depth), []
        for size in (depth // 4, depth // 2 - depth // 4, depth - depth // 2):
            parts.append(rng.hypergeometric(left, pool - left, size))
            left, pool = left - parts[-1], pool - size
        early, middle, late = parts
        while (on := (early + middle + late < STOPS[0]) & (late > 0) & (2 * reached <= DEEPEST * N.mean())).any():
            more = np.where(on, rng.hypergeometric(left, pool - left, np.where(on, reached, 1)), 0)
            left, pool = left - more, pool - np.where(on, reached, 0)
            early, middle, late = (
                np.where(on, *both) for both in ((early + middle, early), (late, middle), (more, late))
            )
            reached = np.where(on, 2 * reached, reached)
        a = early + middle + late
        on = a < STOPS[0]
        if on.sum() >= 30:
            out.append(
                Cases(*split_name(path), float(reached[on].mean()), a[on], (middle + late)[on], pool[on], left[on])
            )
    return of_some_catalogues(out, rng)


def guided_cases(name: str, found: dict[str, np.ndarray], key: str) -> Iterator[Cases]:
    """Open cases of a pair, all compared as deep."""
    model, first = key.split("_")[1], found[key]
    for depth in (d for d in DEPTHS if d <= 0.35 * found["n_items"]):
        ahead, early = ((first <= d).sum(1) for d in (depth, depth // 2))
        for stop in STOPS if depth in (400, 1600) else STOPS[:1]:
            on = ahead < stop
            if on.sum() >= 20:
                a, R = ahead[on], found[f"R_{model}"][on]
                yield Cases(name, key, depth, a, a - early[on], found["N"][on] - 1 - depth, R - 1 - a)


def chance_sets(without: str | None) -> list[Cases]:
    """Open cases of real recommenders behind an order that knows nothing."""
    rng, out = np.random.default_rng(3), []
    for path, R, N in ranks_left(without, rng):
        depth = int(min(rng.choice((100, 200, 400, 1600)), 0.3 * N.min()))
        early = rng.hypergeometric(R - 1, N - R, depth // 2)
        left = R - 1 - early
        late = rng.hypergeometric(left, N - 1 - depth // 2 - left, depth - depth // 2)
        on = early + late < 10
        if on.sum() >= 30:
            a = (early + late)[on]
            out.append(Cases(*split_name(path), depth, a, late[on], N[on] - 1 - depth, R[on] - 1 - a))
    return of_some_catalogues(out, rng)


def training_sets(without: str | None) -> list[Cases]:
    """All cases of real recommenders outside the family of ``without``, their training items compared in full."""
    rng, out = np.random.default_rng(0), []
    for path in rank_files():
        if without is not None and family(split_name(path)[0]) == family(without):
            continue
        with np.load(path) as data:
            if "R_unmasked" not in data.files:
                continue
            masked, whole, pool = (data[key].astype(int) for key in ("R_masked", "R_unmasked", "N_masked"))
            total = int(data["N"])
        ahead = whole - masked
        on = np.flatnonzero((ahead >= 0) & (ahead <= total - pool))
        if len(on) < 0.97 * len(ahead):
            continue
        on = rng.choice(on, min(2500, len(on)), replace=False)
        a = ahead[on]
        depth = float((total - pool[on]).mean())
        out.append(Cases(*split_name(path), depth, a, a, pool[on] - 1, masked[on] - 1, ordered=False))
    return out


def mode(cases: Cases, mean: np.ndarray, Q: np.ndarray, β: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The most likely coefficients of a set, bins × coefficients, and their covariance."""
    B, seen, size = cases.spline.B, cases.seen, COEFFICIENTS
    n = seen.sum(1)

    def value(β: np.ndarray) -> tuple[float, np.ndarray]:
        π = cases.spline.mass(β)
        left = (β - mean).ravel()
        return float((seen * np.log(np.maximum(π, 1e-300))).sum() - 0.5 * left @ Q @ left), π

    now, π = value(β)
    for _ in range(40):
        expected = π @ B
        gradient = (seen @ B - n[:, None] * expected).ravel() - Q @ (β - mean).ravel()
        H = Q.copy()
        for b in np.flatnonzero(n):
            part = slice(b * size, (b + 1) * size)
            H[part, part] += n[b] * ((B * π[b][:, None]).T @ B - np.outer(expected[b], expected[b]))
        move = np.linalg.solve(H, gradient)
        length = min(1.0, 4 / np.abs(move).max())
        while (then := value(β + length * move.reshape(β.shape)))[0] < now - 1e-9 and length > 1e-5:
            length /= 2
        β = β + length * move.reshape(β.shape)
        now, π = then
        if gradient @ move < 1e-3:
            break
    return β, np.linalg.inv(H)


def population(name: str, weight: float, sets: list[Cases]) -> Kind:
    """The Gaussian of a kind."""
    catalogues = Counter(each.catalogue for each in sets)
    for each in sets:
        each.weight = 12 / catalogues[each.catalogue]
    w, features = np.array([each.weight for each in sets]), len(sets[0].trend)
    means, slope = np.zeros((LEAD_BINS, COEFFICIENTS)), np.zeros((features, COEFFICIENTS))
    covariance = np.linalg.inv(3 * SECOND.T @ SECOND + 0.7 * np.eye(COEFFICIENTS))
    coupling = 0.7 * np.ones((LEAD_BINS, LEAD_BINS)) + 0.3 * np.eye(LEAD_BINS)
    held: list[np.ndarray] = [means] * len(sets)
    for _ in range(ROUNDS):
        Q = np.kron(np.linalg.inv(coupling), np.linalg.inv(covariance))
        found = [mode(s, means + s.trend @ slope, (Q + Q.T) / 2, β) for s, β in zip(sets, held, strict=True)]
        held = [β for β, _ in found]
        centred = np.array(held) @ CENTRE
        informed = np.array([np.minimum(s.seen.sum(1), 30) + 0.3 for s in sets]) * w[:, None]
        X = np.zeros((len(sets) * LEAD_BINS, LEAD_BINS + features))
        X[:, :LEAD_BINS] = np.tile(np.eye(LEAD_BINS), (len(sets), 1))
        X[:, LEAD_BINS:] = np.repeat([s.trend for s in sets], LEAD_BINS, axis=0)
        weighted = X * informed.ravel()[:, None]
        ridge = informed.sum() * np.append(np.full(LEAD_BINS, 1e-4), np.full(features, 0.02))
        fitted = np.linalg.solve(weighted.T @ X + np.diag(ridge), weighted.T @ centred.reshape(-1, COEFFICIENTS))
        means, slope = fitted[:LEAD_BINS], fitted[LEAD_BINS:]
        left = [β - means - s.trend @ slope for β, s in zip(centred, sets, strict=True)]
        spread = [V.reshape(LEAD_BINS, COEFFICIENTS, LEAD_BINS, COEFFICIENTS) for _, V in found]
        inverse = np.linalg.inv(coupling)
        S = sum(
            each * (D.T @ inverse @ D + np.einsum("bicj,bc->ij", V, inverse)) / LEAD_BINS
            for each, D, V in zip(w, left, spread, strict=True)
        )
        S = CENTRE @ (S / w.sum()) @ CENTRE
        covariance = 0.9 * S + 0.1 * np.diag(np.diag(S)) + 1e-3 * np.eye(COEFFICIENTS) + 0.5 / COEFFICIENTS
        P = np.linalg.inv(covariance)
        K = sum(
            each * (D @ P @ D.T + np.einsum("bicj,ij->bc", V, P)) / COEFFICIENTS
            for each, D, V in zip(w, left, spread, strict=True)
        )
        scale = float(np.trace(K / w.sum())) / LEAD_BINS
        coupling, covariance = K / w.sum() / scale, covariance * scale
        coupling = 0.95 * coupling + 0.05 * np.diag(np.diag(coupling))
        print(f"{name}: {len(sets)} sets, variance {np.trace(covariance):.1f}", file=sys.stderr, flush=True)
    return Kind(name, weight, means, slope, covariance, coupling)


def card_of(sets: list[Cases]) -> dict[str, object]:
    """What a prior was learned from; several sets of one recommender, at several depths, are one file."""
    catalogues = {each.catalogue for each in sets}
    return {
        "families": len({family(name) for name in catalogues}), "catalogues": len(catalogues),
        "files": len({(each.catalogue, each.models) for each in sets}),
        "models": ["als", "bpr", "ease", "knn", "pop"], "made": date.today().isoformat(),
    }  # fmt: skip


def prior(name: str, kinds: dict[str, tuple[float, list[Cases]]]) -> HyperPrior:
    """A prior of kinds, each with its weight and its sets."""
    sets = [each for _, some in kinds.values() for each in some]
    card = card_of(sets)
    sizes = float(min(each.rest.min() for each in sets)), float(max(each.rest.max() for each in sets))
    fitted = tuple(population(kind, weight, some) for kind, (weight, some) in kinds.items())
    return HyperPrior(name, fitted, SCALES, sizes, card=card)


def behind_a_guide(name: str, sets: list[Cases], chance: list[Cases]) -> HyperPrior:
    """A prior of guides that are models, of popularity, and of orders that know nothing."""
    popular = [each for each in sets if each.models.endswith("_pop")]
    personal = [each for each in sets if not each.models.endswith("_pop")]
    return prior(name, {"model": (0.6, personal), "popularity": (0.2, popular), "chance": (0.2, chance)})


def patient(without: str | None = None) -> HyperPrior:
    """The prior behind a guide where cases go on for which something is still found, perhaps without a catalogue."""
    found = behind_a_guide("patient", sets_of_pairs(without, patient_cases), patient_chance_sets(without))
    kinds = (replace(kind, covariance=PATIENT_SPREAD[kind.name] * kind.covariance) for kind in found.kinds)
    return replace(found, kinds=tuple(kinds))


def guided(without: str | None = None) -> HyperPrior:
    """The prior behind a guide, perhaps without a catalogue."""
    return behind_a_guide("guided", sets_of_pairs(without, guided_cases), chance_sets(without))


def compared(without: str | None = None) -> HyperPrior:
    """The prior behind a user's training items, perhaps without a catalogue."""
    sets = training_sets(without)
    popular = [each for each in sets if each.models.startswith("pop")]
    personal = [each for each in sets if not each.models.startswith("pop")]
    return prior("compared", {"personal": (0.5, personal), "popularity": (0.5, popular)})


def evidence(cases: Cases, kind: Kind) -> float:
    """The log evidence of a set whose B are all known under a kind at all scales, by Laplace's approximation."""
    precision = np.kron(np.linalg.inv(kind.coupling), np.linalg.inv(kind.covariance))
    mean = kind.means + cases.trend @ kind.slope
    β, out = mean, []
    for factor, weight in SCALES:
        Q = (precision + precision.T) / 2 / factor
        β, V = mode(cases, mean, Q, β)
        left = (β - mean).ravel()
        seen = float((cases.seen * np.log(np.maximum(cases.spline.mass(β), 1e-300))).sum()) - 0.5 * left @ Q @ left
        out.append(np.log(weight) + seen + 0.5 * (np.linalg.slogdet(Q)[1] + np.linalg.slogdet(V)[1]))
    return float(np.logaddexp.reduce(out))


def held_out() -> None:
    """Print how much more likely sets of a family left out are, per set, if the patient prior's models were others."""
    rng, sets = np.random.default_rng(0), sets_of_pairs(None, patient_cases)
    print("| left out | half the covariance | twice | bins 30 % less alike |\n|---|---|---|---|")
    for name in CATALOGUES:
        kind = patient(name).kinds[0]
        apart = 0.7 * kind.coupling + 0.3 * np.diag(np.diag(kind.coupling))
        others = [replace(kind, covariance=factor * kind.covariance) for factor in (0.5, 2.0)]
        others.append(replace(kind, coupling=apart))
        own = [each for each in sets if each.catalogue == name and not each.models.endswith("_pop")]
        gains = []
        for each in (own[place] for place in rng.choice(len(own), min(16, len(own)), replace=False)):
            each.seen[-1] = 0  # the bin of the unknown holds the others' cases
            base = evidence(each, kind)
            gains.append([evidence(each, other) - base for other in others])
        print(f"| {name} | {' | '.join(f'{gain:+.2f}' for gain in np.mean(gains, axis=0))} |", flush=True)


def main() -> None:
    if "--held-out" in sys.argv:
        held_out()
        return
    if len(sys.argv) > 1:
        print(priors_to_json({"guided": guided(sys.argv[1]), "patient": patient(sys.argv[1])}))
        return
    TARGET.write_text(priors_to_json({"guided": guided(), "patient": patient(), "compared": compared()}) + "\n")


if __name__ == "__main__":
    main()
