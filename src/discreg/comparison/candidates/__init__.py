"""The models of a comparison, and how they are tuned."""
