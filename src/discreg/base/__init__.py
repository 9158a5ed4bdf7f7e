"""What every estimator is made of: base classes, parameters, calibration, the search engine."""
