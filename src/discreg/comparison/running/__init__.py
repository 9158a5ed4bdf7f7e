"""Running the fits of an experiment and storing their results."""
