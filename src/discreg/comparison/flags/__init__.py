"""Warnings about a table or a comparison."""
