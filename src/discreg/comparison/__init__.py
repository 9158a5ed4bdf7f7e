"""Comparison of models on a table: candidates, nested cross-validation, statistics, report."""
