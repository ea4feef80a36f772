"""Neural recommenders, trained by PyTorch (extra ``neural``) and scored, saved and loaded without it."""

from fullrank.models.neural.multivae import MultiVAE
from fullrank.models.neural.neumf import NeuMF
from fullrank.models.neural.ngcf import NGCF

__all__ = ["NGCF", "MultiVAE", "NeuMF"]
