"""Predict the rows of a CSV file from standard input, and write labels to standard output."""

import sys

import pandas as pd

from discreg import load_model

model = load_model(sys.argv[1])
labels = model.predict(pd.read_csv(sys.stdin))
pd.DataFrame({"label": labels}).to_csv(sys.stdout, index=False)
