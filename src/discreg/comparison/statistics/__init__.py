"""From held-out scores and predictions to a verdict."""
