"""Stage 3b: from the files of other tools (ranks, scored candidates, lists of negatives, TREC runs) to rank counts."""
