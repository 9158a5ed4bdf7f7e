"""
Components of a kernel
======================

With many rows a kernel is approximated by components. Left: ``kernel_error_``, measured on
training rows, falls with the number of components. Right: the accuracy on new rows approaches
that of the exact kernel (dashed). A wider kernel (smaller gamma) needs fewer components.
"""

from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from discreg import LSRClassifier

X, y = load_digits(return_X_y=True)
X, X_new, y, y_new = train_test_split(X / 16, y, stratify=y, random_state=0)
numbers = [10, 20, 40, 80, 160, 320, 640]

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for gamma, colour in ((0.3, "#D55E00"), (0.05, "#0072B2")):
    options = {"kernel": "rbf", "gamma": gamma, "beta": 0.001, "probability": False}
    fits = [
        LSRClassifier(n_components=number, random_state=0, **options).fit(X, y)
        for number in numbers
    ]
    exact = LSRClassifier(**options).fit(X, y).score(X_new, y_new)
    left.loglog(numbers, [fit.kernel_error_ for fit in fits], "o-", color=colour)
    right.semilogx(
        numbers, [fit.score(X_new, y_new) for fit in fits], "o-", c=colour, label=f"gamma={gamma}"
    )
    right.axhline(exact, color=colour, linestyle="--", linewidth=1)
left.set(xlabel="n_components", ylabel="kernel_error_")
right.set(xlabel="n_components", ylabel="accuracy on new digits")
right.legend()
