"""What observing is given, checked once: the seed, the candidates, and whether model and split fit together."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from fullrank._checks import first_where, more
from fullrank.data.frames import canonical_csr
from fullrank.data.split import Split
from fullrank.observing.blocks import Pools


def seed_of(rng: int | np.random.Generator | None) -> int:
    """Return the whole number that ties and draws are seeded with."""
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(1 << 63))
    if rng is None:
        return int(np.random.default_rng().integers(1 << 63))
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer) or rng < 0:
        raise TypeError(f"`rng` must be a whole number from 0, a NumPy Generator or None, got {rng!r}.")
    return int(rng)


def check_sizes(scorer: Any, split: Split, called: str) -> None:
    """Refuse a split with users or items that the model does not know, and one with too many items."""
    for what, least in (("user", int(split.users.max()) + 1), ("item", split.n_items)):
        known, size = getattr(scorer, f"n_{what}s", None), getattr(split, f"n_{what}s")
        if known is not None and known < least:
            raise ValueError(
                f"{called} knows {known:,} {what}s, but the split has {size:,}: fit it on the split's own `train`."
            )
        if known is not None and known > size and getattr(split, f"{what}_ids") is not None:
            raise ValueError(
                f"{called} knows {known:,} {what}s, but the split numbers its {size:,} anew: fit it on the split's "
                f"own `train`, or take the rows of `split.{what}_ids`."
            )
    if split.n_items >= np.iinfo(np.int32).max:
        most = np.iinfo(np.int32).max - 1
        raise ValueError(f"`split` must have at most {most:,} items, got {split.n_items:,}.")


def pools_of(given: Any, split: Split) -> Pools:
    """Return what ``candidates`` means for a split; shares in a design are shares of its largest pool."""
    shape = (split.n_users, split.n_items)
    if isinstance(given, str) and given in ("unseen", "all"):
        listed = split.train if given == "unseen" else sp.csr_matrix(shape, dtype=np.int8)
        return Pools(listed, False, split.n_items)
    if sp.issparse(given) or (isinstance(given, np.ndarray) and given.ndim == 2 and given.dtype == bool):
        pool = canonical_csr(given)
        if pool.shape != shape:
            raise ValueError(
                f"`candidates` must have the shape of the split, {shape[0]} users × {shape[1]} items, got {pool.shape}."
            )
        pool = pool.copy()
        pool.eliminate_zeros()
    elif isinstance(given, dict | Sequence | np.ndarray) and not isinstance(given, str):
        if isinstance(given, np.ndarray) and given.shape == shape and not (given > 1).any():
            raise TypeError("`candidates` holds 0 and 1 for every user and item: give a mask as booleans, or sparse.")
        pool = lists_of(given, "candidates", split).sorted_indices()
    else:
        error, got = (ValueError, repr(given)) if isinstance(given, str) else (TypeError, f"a {type(given).__name__}")
        raise error(f"`candidates` must be 'unseen', 'all', or a pool of items per user, got {got}.")
    return Pools(pool, True, int(np.diff(pool.indptr)[np.unique(split.users)].max()) + 1)


def lists_of(given: Any, what: str, split: Split) -> Any:
    """Return the items of every user, each once, as a CSR matrix that keeps their order; a dict may leave users out."""
    if isinstance(given, dict) and (strange := [user for user in given if user not in range(split.n_users)]):
        which = f"{strange[0]!r}{more(len(strange))}"
        raise ValueError(
            f"`{what}` has a list for {which}, which is no user of the split: users are positions from 0 to "
            f"{split.n_users - 1}."
        )
    lists = [given.get(user, ()) for user in range(split.n_users)] if isinstance(given, dict) else given
    if len(lists) != split.n_users:
        raise ValueError(
            f"`{what}` must have a list for each of the split's {split.n_users} users, got {len(lists)} lists."
        )
    try:
        read = [np.asarray(items) for items in lists]
        if any(items.dtype.kind not in "iuO" and items.size for items in read):
            raise TypeError
        arrays = [items.astype(np.int64) for items in read]
        once = [items[np.sort(np.unique(items, return_index=True)[1])] for items in arrays]
    except (TypeError, ValueError, IndexError):
        raise TypeError(f"`{what}` must list items by their positions, 0 to {split.n_items - 1}.") from None
    flat, ptr = np.concatenate(once), np.cumsum([0, *map(len, once)])
    if (wrong := first_where((flat < 0) | (flat >= split.n_items))) is not None:
        user = np.searchsorted(ptr, wrong, side="right") - 1
        raise ValueError(f"`{what}` of user {user} must be items from 0 to {split.n_items - 1}, got {flat[wrong]}.")
    return sp.csr_matrix((np.ones(len(flat), dtype=np.int8), flat, ptr), shape=(split.n_users, split.n_items))
