"""Predict the rows of a CSV file from standard input: labels and probabilities as CSV."""

import sys

import pandas as pd

from discreg import load_model

model = load_model(sys.argv[1])
rows = pd.read_csv(sys.stdin)
predicted = pd.DataFrame(model.predict_proba(rows), columns=model.classes_)
predicted.insert(0, "label", model.predict(rows))
predicted.to_csv(sys.stdout, index=False)
