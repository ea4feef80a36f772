"""Neural recommenders, trained by PyTorch (extra ``neural``) and scored, saved and loaded without it."""

import fullrank as fr

from .multivae import MultiVAE
from .neumf import FittedNeuMF, NeuMF
from .ngcf import NGCF

__all__ = ["NGCF", "FittedNeuMF", "MultiVAE", "NeuMF"]

fr.models.register(MultiVAE, NeuMF, NGCF, neumf=FittedNeuMF.loaded)
