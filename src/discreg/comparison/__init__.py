"""Comparison of models on a table.

What users call is in the modules of this folder. Each of the other folders imports only those
before it:

- `candidates`: the models and how they are tuned
- `running`: folds, metrics, fits in worker processes, and the store of their results
- `statistics`: from held-out probabilities to numbers and a verdict
- `flags`: warnings about a table or a comparison
- `report`: the HTML page and its figures
"""
