"""Numerical building blocks without estimators."""
