"""Stage 1, files → `Split`: frames and official files in, a training matrix and test cases out."""

from fullrank.data.frames import Interactions, interactions, k_core
from fullrank.data.readers import (
    Negatives,
    read_adjacency,
    read_book_ratings,
    read_lightgcn,
    read_ncf,
    read_negatives,
    read_rating,
    read_ratings_csv,
    read_ratings_dat,
    read_u_data,
    read_users_dat,
)
from fullrank.data.sources import available, catalogue, data_folder, download, import_files, load
from fullrank.data.split import Split, given_test

__all__ = [
    "Interactions", "Negatives", "Split", "available", "catalogue", "data_folder", "download", "given_test",
    "import_files", "interactions", "k_core", "load", "read_adjacency", "read_book_ratings", "read_lightgcn", "read_ncf",
    "read_negatives", "read_rating", "read_ratings_csv", "read_ratings_dat", "read_u_data", "read_users_dat",
]  # fmt: skip
