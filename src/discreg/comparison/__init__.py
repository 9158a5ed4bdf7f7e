"""Comparison of models on a table.

What users call is in the modules of this folder. Each of the other folders imports only those
before it:

- `protocol`: folds and metrics
- `candidates`: the models and how they are tuned
- `running`: fits in worker processes, and the store of their results
- `statistics`: from held-out scores and predictions to a verdict
- `flags`: warnings about a table or a comparison
- `report`: the HTML page, its figures, and plots
"""
