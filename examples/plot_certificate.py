"""
The certificate of a fit
========================

``gap_`` bounds the relative distance of a fit from the optimum, without knowing the optimum. Here
the papers' alternating solver is stopped after more and more iterations. The bound (line with
points) is always above the true distance (dashed), and falls with it. Newton's method needs a few
steps.
"""

from matplotlib import pyplot as plt
from sklearn.datasets import load_wine
from sklearn.preprocessing import scale

from discreg import ReLSRClassifier

X, y = load_wine(return_X_y=True)
X = scale(X)
best = ReLSRClassifier(beta=0.01, tol=0).fit(X, y).objective_history_[-1]

figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
for solver, steps, colour in (
    ("alternating", (1, 2, 4, 8, 16, 32, 64, 128, 256, 512), "#4D4D4D"),
    ("newton", range(1, 9), "#D55E00"),
):
    fits = [
        ReLSRClassifier(beta=0.01, solver=solver, max_iter=number, tol=0, probability=False).fit(
            X, y
        )
        for number in steps
    ]
    excess = [max(1 - best / fit.objective_history_[-1], 1e-16) for fit in fits]
    ax.loglog(steps, [fit.gap_ for fit in fits], "o-", color=colour, label=f"{solver}: gap_")
    ax.loglog(steps, excess, "--", color=colour, label=f"{solver}: true distance")
ax.axhline(1e-6, color="#999999", linestyle=":", label="default tol")
ax.set(xlabel="iterations", ylabel="relative distance from the optimum", ylim=(1e-12, 10))
ax.legend()
