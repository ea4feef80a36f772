"""Stage 3: from ranked cases to counts: designs, their law, and the sufficient statistic."""
