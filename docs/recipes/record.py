"""Record what RecBole and RecTools put out, for the recipes that cannot run them beside everything else.

They pin old versions of ray and NumPy, so run this in an environment of its own (recbole 1.2.1, rectools 0.19.0):
``python docs/recipes/record.py recbole`` and ``… rectools``. It writes ``docs/recipes/recorded/*``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent / "recorded"


def interactions(users: int = 60, items: int = 300, each: int = 12) -> list[tuple[int, int]]:
    """Made-up users who take popular items more often."""
    rng = np.random.default_rng(0)
    weight = 1 / (1 + np.arange(items))
    return [(u, int(i)) for u in range(users) for i in rng.choice(items, each, replace=False, p=weight / weight.sum())]


def recbole() -> None:
    """One epoch of BPR, evaluated with uni20: what `Collector.eval_batch_collect` receives, and RecBole's own numbers."""
    for name, kind in {"float_": np.float64, "complex_": np.complex128, "unicode_": np.str_}.items():
        if not hasattr(np, name):  # RecBole 1.2.1 asks for names that NumPy 2 has dropped
            setattr(np, name, kind)
    import torch
    from recbole.config import Config
    from recbole.data import create_dataset, data_preparation
    from recbole.utils import get_model, get_trainer, init_seed

    folder = Path(tempfile.mkdtemp())
    (folder / "toy").mkdir()
    lines = "".join(f"{user}\t{item}\n" for user, item in interactions())
    (folder / "toy" / "toy.inter").write_text("user_id:token\titem_id:token\n" + lines)
    arguments = {"split": {"LS": "valid_and_test"}, "group_by": "user", "order": "RO", "mode": "uni20"}
    settings = {
        "data_path": str(folder), "checkpoint_dir": str(folder), "epochs": 1, "eval_args": arguments, "topk": [10],
        "metrics": ["Recall", "NDCG"], "valid_metric": "NDCG@10", "show_progress": False, "use_gpu": False,
        "metric_decimal_place": 9,
    }  # fmt: skip
    config = Config(model="BPR", dataset="toy", config_dict=settings)
    init_seed(0, True)
    dataset = create_dataset(config)
    train, valid, test = data_preparation(config, dataset)
    trainer = get_trainer(config["MODEL_TYPE"], "BPR")(config, get_model("BPR")(config, train.dataset))
    trainer.fit(train, verbose=False, saved=False)
    kept, collect = [], trainer.eval_collector.eval_batch_collect

    def keep(scores, interaction, positive_u, positive_i):  # type: ignore[no-untyped-def]
        kept.append((scores.clone(), interaction["user_id"].clone(), positive_u.clone(), positive_i.clone()))
        collect(scores, interaction, positive_u, positive_i)

    trainer.eval_collector.eval_batch_collect = keep
    told = trainer.evaluate(test, load_best_model=False)
    ((scores, users, positive_u, positive_i),) = kept
    seen = np.bincount(train.dataset.inter_feat["user_id"], minlength=dataset.user_num)
    seen += np.bincount(valid.dataset.inter_feat["user_id"], minlength=dataset.user_num)
    np.savez_compressed(
        HERE / "recbole.npz", scores=scores.numpy(), interaction_user_id=users.numpy(), positive_u=positive_u.numpy(),
        positive_i=positive_i.numpy(), item_num=dataset.item_num, seen=seen,
        recall=float(told["recall@10"]), ndcg=float(told["ndcg@10"]),
    )  # fmt: skip
    print(told, torch.__version__)


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
    {"recbole": recbole, "rectools": rectools}[sys.argv[1]]()
