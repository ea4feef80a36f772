"""Record what RecTools puts out, for the recipe that cannot run it beside everything else.

It wants NumPy below 2, so run this in an environment of its own (rectools 0.19.0): ``python docs/recipes/record.py``. It
writes ``docs/recipes/recorded/*``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

HERE = Path(__file__).parent / "recorded"


def interactions(users: int = 60, items: int = 300, each: int = 12) -> list[tuple[int, int]]:
    """Made-up users who take popular items more often."""
    rng = np.random.default_rng(0)
    weight = 1 / (1 + np.arange(items))
    return [(u, int(i)) for u in range(users) for i in rng.choice(items, each, replace=False, p=weight / weight.sum())]


def rectools() -> None:
    """`model.recommend` for each user's held-out item and 20 random others: RecTools' own columns."""
    import pandas as pd
    from rectools import Columns
    from rectools.dataset import Dataset
    from rectools.models import EASEModel

    rows = pd.DataFrame(interactions(), columns=[Columns.User, Columns.Item]).assign(weight=1.0, datetime="2024-01-01")
    test = rows.groupby(Columns.User).tail(1)
    test = test[test[Columns.Item].isin(rows.drop(test.index)[Columns.Item])]
    dataset = Dataset.construct(rows.drop(test.index))
    model = EASEModel(regularization=50.0).fit(dataset)
    known, rng, out = dataset.item_id_map.external_ids, np.random.default_rng(1), []
    for user, target in zip(test[Columns.User], test[Columns.Item], strict=True):
        seen = rows[rows[Columns.User] == user][Columns.Item]
        negatives = rng.choice(np.setdiff1d(known, seen), 20, replace=False)
        asked = np.r_[target, negatives]
        out.append(model.recommend([user], dataset, k=21, filter_viewed=False, items_to_recommend=asked))
    pd.concat(out).to_csv(HERE / "rectools.csv", index=False)
    test[[Columns.User, Columns.Item]].to_csv(HERE / "rectools-test.csv", index=False)
    print(len(out), "users among", len(known), "items")


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    rectools()
