"""The report of a comparison, its figures and its tables."""
