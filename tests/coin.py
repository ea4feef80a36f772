"""A design from outside: with probability ½ every candidate is compared, else a few negatives are drawn."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

import fullrank as fr
from fullrank.ranks.design import ALL, Course


@dataclass(frozen=True)
class Coin(fr.Design):
    negatives: int = 20
    replace: bool = True

    def __str__(self):
        return f"coin{self.negatives}{'' if self.replace else ' without replacement'}"

    @classmethod
    def parse(cls, word):
        found = re.fullmatch(r"coin(\d+)( without replacement)?", word)
        return None if found is None else cls(int(found[1]), found[2] is None)

    def stages(self, n_items):
        return (ALL,) if self.negatives >= n_items - 1 else (self.negatives, ALL)

    def courses(self, n_items):
        if self.negatives >= n_items - 1:
            return (Course((ALL,)),)
        return Course((ALL,), share=0.5), Course((self.negatives,), replace=self.replace, share=0.5)

    def outcomes(self, n_items):
        known = np.arange(n_items)
        if self.negatives >= n_items - 1:
            return np.full(n_items, ALL), known
        few = np.arange(self.negatives + 1)
        return np.concatenate([np.full(n_items, ALL), np.full(len(few), self.negatives)]), np.concatenate([known, few])

    def law(self, ranks, n_items, drawn, hits):
        either = fr.Sample(self.negatives, self.replace).law(ranks, n_items, drawn, hits)
        return either if self.negatives >= n_items - 1 else either / 2

    def auc(self, drawn, hits, n_items):
        return fr.Sample(self.negatives, self.replace).auc(drawn, hits, n_items)
