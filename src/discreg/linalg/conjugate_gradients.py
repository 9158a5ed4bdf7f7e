"""Conjugate gradients for systems whose matrix is known by its products alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["conjugate_gradients"]

Array = NDArray[np.float64]


def conjugate_gradients(
    matvec: Callable[[Array], Array],
    rhs: Array,
    preconditioner: Callable[[Array], Array],
    *,
    tol: float,
    max_iter: int,
) -> Array:
    r"""Minimise :math:`\tfrac12 \langle z, Az\rangle - \langle b, z\rangle` from zero.

    For a symmetric positive semi-definite A this solves Az = b. Arrays of any shape count as one
    long vector.

    Parameters
    ----------
    matvec : callable
        ``matvec(z)`` is Az.
    rhs : ndarray
        The right-hand side b.
    preconditioner : callable
        ``preconditioner(r)`` is :math:`M^{-1}r` for a positive definite M that resembles A.
    tol : float
        Stop once the residual :math:`r = b - Az` has
        :math:`\langle r, M^{-1}r\rangle \le tol^2 \langle b, M^{-1}b\rangle`.
    max_iter : int
        Largest number of products with A.

    Returns
    -------
    z : ndarray
        The approximate solution. The iteration ends early along a direction without curvature.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> z = conjugate_gradients(A.__matmul__, np.array([3.0, 4.0]), np.copy, tol=1e-12, max_iter=5)
    >>> z.round(12)
    array([1., 1.])
    """
    solution, residual = np.zeros_like(rhs), rhs
    direction = preconditioner(residual)
    energy = float(np.vdot(residual, direction))
    enough = tol**2 * energy
    for _ in range(max_iter):
        image = matvec(direction)
        curvature = float(np.vdot(direction, image))
        if curvature <= 0:
            break
        length = energy / curvature
        solution = solution + length * direction
        residual = residual - length * image
        preconditioned = preconditioner(residual)
        energy, previous = float(np.vdot(residual, preconditioned)), energy
        if energy <= enough:
            break
        direction = preconditioned + energy / previous * direction
    return solution
