"""Stage 3a: from a model and a design to rank counts; exactly or by sampling, in bounded memory, resumable."""
