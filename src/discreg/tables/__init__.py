"""From a file to features: reading, column types, preprocessing."""
