"""Stage 2: from a split to a scorer: models that rank items for users, ours or anyone's."""

from fullrank.models.als import ALS, ImplicitALS
from fullrank.models.ease import EASE
from fullrank.models.fitted import FittedFactors, FittedItemItem, describe, history_of, load_model, register, save_model
from fullrank.models.itemknn import ItemCF, ItemKNN
from fullrank.models.popularity import Popularity
from fullrank.models.scorer import Factors, ItemItem, Pairs, Rows, Scorer, Table, as_scorer
from fullrank.models.stored import StoredFactors, read_factors

__all__ = [
    "ALS", "EASE", "Factors", "FittedFactors", "FittedItemItem", "ImplicitALS", "ItemCF", "ItemItem", "ItemKNN",
    "Pairs", "Popularity", "Rows", "Scorer", "StoredFactors", "Table", "as_scorer", "describe", "history_of",
    "load_model", "read_factors", "register", "save_model",
]  # fmt: skip

register(ALS, EASE, ImplicitALS, ItemCF, ItemKNN, Popularity)
