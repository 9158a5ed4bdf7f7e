"""Data sets and comparisons of models."""
