"""Stage 1, files → `Split`: frames and official files in, a training matrix and test cases out."""

from fullrank.data.frames import Interactions, interactions, k_core
from fullrank.data.readers import Negatives, read_negatives
from fullrank.data.sources import available, catalogue, data_folder, import_files, load
from fullrank.data.split import Split, given_test

__all__ = [
    "Interactions", "Negatives", "Split", "available", "catalogue", "data_folder", "given_test", "import_files",
    "interactions", "k_core", "load", "read_negatives",
]  # fmt: skip
