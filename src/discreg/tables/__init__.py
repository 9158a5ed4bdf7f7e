"""From a file or a data frame to features: file formats, column types, preprocessing."""
