"""How the prior's script learns from files: kinds of shapes, and what models of one catalogue have in common."""

import numpy as np
import pytest


@pytest.fixture
def fitting(of_benchmarks):
    """The script that fits the prior, as a module."""
    return of_benchmarks("fit_hyperprior")


def test_files_of_like_shape_are_one_kind_whatever_the_size_of_their_catalogue(fitting):
    rng = np.random.default_rng(0)
    size = fitting.COEFFICIENTS
    x = np.linspace(0, 1, size)
    shapes = np.stack([np.exp(-8 * x), x**3, np.sin(6 * x)]) * 3
    larger = rng.standard_normal(size)  # what a larger catalogue changes, which is more than shapes differ by
    files = []
    for index in range(90):
        n_items = float(np.exp(rng.uniform(6, 12)))
        β = shapes[index % 3] + (np.log(n_items) - 9) * larger + 0.1 * rng.standard_normal(size)
        none = np.zeros((1, size))
        files.append(fitting.File(f"c{index}", "als", n_items, none, none, (β - β.mean())[None], np.ones(1)))
    groups = fitting.by_shape(files, 3)
    assert sorted(len(group) for group in groups) == [30, 30, 30]
    for group in groups:
        assert len({int(file.catalogue[1:]) % 3 for file in group}) == 1


def test_what_models_of_a_catalogue_share_is_told_from_what_is_their_own(fitting):
    rng = np.random.default_rng(1)
    size = fitting.COEFFICIENTS
    x = np.linspace(0, 1, size)
    shared, own = (each - each.mean() for each in (np.sin(3 * x), np.cos(9 * x)))
    files = []
    for catalogue in range(120):
        of_all = 1.5 * rng.standard_normal() * shared
        n_items = float(np.exp(rng.uniform(7, 11)))
        for model in ("als", "bpr", "knn", "ease", "pop"):
            β = of_all + 0.6 * rng.standard_normal() * own + (50.0 if model == "pop" else 0.0) * shared
            H = np.eye(size) * 400  # what the file knows of its coefficients, and it is right about them
            files.append(fitting.File(f"c{catalogue}", model, n_items, H[None], (H @ β)[None], β[None], np.ones(1)))
    found = fitting.common(files)  # popularity, which is far off, does not take part
    along = [each / np.linalg.norm(each) for each in (shared, own)]
    for S, spread, here, other in ((found.shared, 1.5, 0, 1), (found.covariance, 0.6, 1, 0)):
        direction = (shared, own)[here]
        assert along[here] @ S @ along[here] == pytest.approx(spread**2 * (direction @ direction), rel=0.25)
        assert along[other] @ S @ along[other] < 0.1 * along[here] @ S @ along[here]
