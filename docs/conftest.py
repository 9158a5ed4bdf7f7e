"""Markdown pages are doctests; the code that builds the site and what it writes are not."""

collect_ignore_glob = [
    "conf.py",
    "_*",
    "api/*",
    "benchmarks/*",
    "gallery/*",
    "project/*",
    "reproduction/*",
]
