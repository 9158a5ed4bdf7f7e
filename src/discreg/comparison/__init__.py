"""Which model suits a table: candidates, nested cross-validation, statistics, report."""
