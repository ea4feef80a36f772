"""What the command line prints at 80 columns: `python tests/golden/make_cli.py` writes `tests/golden/cli/*.txt` anew.

The inputs are made up from a seed, in the formats of RecBole (a typed header, sampled negatives with replacement, repeats
collapsed) and NCF (`.test.negative`, `.train.rating`, and the scores of the candidates).
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent / "cli"

#: Name of the golden file → the command, in a folder with the inputs.
COMMANDS: dict[str, tuple[str, ...]] = {
    "correct-ranks": ("correct", "ranks.csv", "--items", "3000", "--negatives", "99", "-m", "recall@10,20", "-m", "ndcg@10"),
    "correct-recbole": ("correct", "BPR.inter", "--items", "3000", "--design", "uni100", "-m", "ndcg@10", "-m", "mrr@10"),
    "correct-ncf": (
        "correct", "NeuMF.csv", "--lists", "toy.test.negative", "--train", "toy.train.rating", "--items", "3000",
        "--negatives", "99", "-m", "hr@10", "-m", "ndcg@10",
    ),
    "correct-ncf-mle": (
        "correct", "NeuMF.csv", "--lists", "toy.test.negative", "--items", "3000", "--negatives", "99", "-m", "hr@10",
        "-e", "mle",
    ),
    "correct-exact": ("correct", "exact.csv", "--items", "3000", "--design", "full", "-m", "ndcg@10", "-m", "recall@10"),
    "compare": ("compare", "ranks.csv", "--items", "3000", "--negatives", "99", "-m", "ndcg@10"),
    "compare-markdown": ("compare", "ranks.csv", "--items", "3000", "--negatives", "99", "-m", "ndcg@10", "--markdown"),
    "evaluate": (
        "evaluate", "--train", "train.csv", "--test", "test.csv", "-M", "factors=users.npy,items.npy",
        "-M", "noisy=noisy.npy,items.npy", "-m", "ndcg@10", "--design", "uni99",
    ),
    "evaluate-exact": (
        "evaluate", "--train", "train.csv", "--test", "test.csv", "-M", "factors=users.npy,items.npy",
        "-M", "noisy=noisy.npy,items.npy", "-m", "ndcg@10", "--design", "full",
    ),
    "evaluate-precision": (
        "evaluate", "--train", "train.csv", "--test", "test.csv", "-M", "factors=users.npy,items.npy",
        "-m", "ndcg@10", "--design", "adaptive", "--precision", "0.25",
    ),
    "demo": ("demo", "--html", "demo.html"),
    "plan": ("plan", "--items", "20000", "--cases", "2000", "-m", "ndcg@10", "--precision", "0.05"),
    "plan-budget": ("plan", "--items", "20000", "--cases", "1000", "-m", "recall@10", "--max-items", "50000"),
    "plan-too-little": ("plan", "--items", "20000", "--cases", "1000", "-m", "recall@10", "--max-items", "500"),
    "data": ("data",),
    "data-show": ("data", "show", "ml-20m"),
}  # fmt: skip


def write_inputs(folder: Path, users: int = 400, items: int = 3000) -> None:
    """A toy catalogue in every format the commands above read."""
    rng = np.random.default_rng(20)
    true = np.floor(items ** rng.beta(2.6 / 3, 1, size=(2, users))).astype(int)
    with (folder / "ranks.csv").open("w") as file:
        file.write("model,user_id,rank\n")
        for model, ranks in zip(("EASE", "ALS, 64 factors"), true, strict=True):
            sampled = 1 + rng.binomial(99, (ranks - 1) / (items - 1))
            file.writelines(f'"{model}",{user},{rank}\n' for user, rank in enumerate(sampled))
    with (folder / "exact.csv").open("w") as file:
        file.write("EASE,ALS\n")
        file.writelines(f"{a},{b}\n" for a, b in true.T)
    U, V = rng.normal(size=(users, 8)).astype("f4"), rng.normal(size=(items, 8)).astype("f4")
    liked = np.argsort(-(U @ V.T + 2 * rng.gumbel(size=(users, items))), axis=1)
    for name, chosen in (("train", liked[:, 1:9]), ("test", liked[:, :1])):
        pairs = [f"{user},{item}\n" for user in range(users) for item in chosen[user]]
        (folder / f"{name}.csv").write_text("user_id,item_id\n" + "".join(pairs))
    for name, factors in (("users", U), ("items", V), ("noisy", U + rng.normal(size=U.shape).astype("f4"))):
        np.save(folder / f"{name}.npy", factors)
    with (
        (folder / "BPR.inter").open("w") as recbole,
        (folder / "NeuMF.csv").open("w") as scores,
        (folder / "toy.test.negative").open("w") as lists,
        (folder / "toy.train.rating").open("w") as train,
    ):
        recbole.write("user_id:token\titem_id:token\tscore:float\tlabel:float\n")
        scores.write("user_id,item_id,score\n")
        for user, rank in enumerate(true[0]):
            order = rng.permutation(items)  # item `order[r]` has rank r + 1; its score is -r
            place = np.argsort(order)
            target = int(order[rank - 1])
            unseen = np.delete(rng.permutation(np.delete(np.arange(items), target)), np.s_[:30])
            seen = np.setdiff1d(np.arange(items), [target, *unseen])
            for negatives, write in ((rng.choice(unseen, 100), "recbole"), (rng.choice(unseen, 99), "ncf")):
                if write == "recbole":
                    for item in [target, *np.unique(negatives).tolist()]:
                        label = "1.0" if item == target else "0.0"
                        recbole.write(f"u{user}\ti{item}\t{-place[item]:.1f}\t{label}\n")
                else:
                    lists.write(f"({user},{target})\t" + "\t".join(map(str, negatives.tolist())) + "\n")
                    for item in [target, *np.unique(negatives).tolist()]:
                        scores.write(f"{user},{item},{-place[item]}\n")
            for item in seen.tolist():
                train.write(f"{user}\t{item}\t1\t0\n")


def said(arguments: tuple[str, ...], folder: Path) -> str:
    """The command, as typed, and what it prints when piped; the folder's name is taken out."""
    from fullrank.cli import main

    out = io.StringIO()
    before, sys.argv = sys.argv, ["fullrank", *arguments]
    os.environ["FULLRANK_DATA"] = str(folder / "no data")
    try:
        with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            main()
    except SystemExit as end:
        if end.code:
            out.write(f"exit code {end.code}\n")
    finally:
        sys.argv = before
    typed = " ".join(f"'{word}'" if " " in word else word for word in arguments)
    return f"$ fullrank {typed}\n{out.getvalue()}".replace(str(folder), "…")


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        write_inputs(Path(name))
        for golden, command in COMMANDS.items():
            (HERE / f"{golden}.txt").write_text(said(command, Path(name)), encoding="utf-8")
            print(f"wrote {HERE / golden}.txt")
