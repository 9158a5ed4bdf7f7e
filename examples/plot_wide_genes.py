"""
Wide data: a map of patients and a panel of genes
=================================================

Ninety patients with four thousand genes, as in the tutorial on gene expression. Left: the two
directions of ``LRRRClassifierCV`` are a map of the patients. With more genes than patients, the
training patients of a subtype (black border) coincide; the other points are new patients. Right:
how many genes ``SLRRClassifier`` uses as its penalty grows, and how many of them belong to the
two pathways that differ between the subtypes.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from discreg import LRRRClassifierCV, SLRRClassifier

rng = np.random.default_rng(0)
names = ["basal", "luminal", "normal"]
y = np.repeat(names, 30)
pathways = rng.standard_normal((90, 10))
pathways[:, :2] += np.repeat([[2.4, 0.0], [0.0, 2.4], [-1.8, -1.8]], 30, axis=0)
member = rng.integers(10, size=4000)
strength = np.where(np.arange(4000) < 2000, rng.uniform(0.4, 0.9, size=4000), 0.0)
X = pathways[:, member] * strength + rng.standard_normal((90, 4000))

X, X_new, y, y_new = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
scaler = StandardScaler().fit(X)
X, X_new = scaler.transform(X), scaler.transform(X_new)
model = LRRRClassifierCV().fit(X, y)

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for name, colour in zip(names, ("#0072B2", "#E69F00", "#009E73"), strict=True):
    left.scatter(*model.transform(X[y == name]).T, c=colour, edgecolors="black", label=name)
    left.scatter(*model.transform(X_new[y_new == name]).T, c=colour, alpha=0.5)
left.set_title(f"{model.score(X_new, y_new):.0%} of new patients are recognised")
left.legend()

penalties = np.geomspace(1, 13, 9)
genes = [SLRRClassifier(beta=beta, probability=False).fit(X, y) for beta in penalties]
genes = [fit.selected_features_ for fit in genes]
inside = [np.sum((member[each] < 2) & (each < 2000)) for each in genes]
right.plot(penalties, [len(each) for each in genes], "o-", color="#4D4D4D", label="selected genes")
right.plot(penalties, inside, "o--", color="#D55E00", label="in the two pathways")
right.set(xscale="log", xlabel="beta of SLRR", ylabel="genes")
right.legend()
