"""Shared parts of all estimators: base classes, parameter search, calibration, partial fits."""
