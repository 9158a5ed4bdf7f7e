"""How a comparison measures: folds and metrics."""
