"""Data in blocks of rows: sources of blocks, labels and weights, moments."""
