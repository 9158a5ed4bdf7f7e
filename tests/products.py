"""Products of parameters, thinned: as many cases as show a fault of one value, or of two together.

Used like ``pytest.mark.parametrize``; the order of the values does not matter to what is covered.
"""

from itertools import combinations

import pytest


def every_value(**values):
    """Every value of every parameter occurs: as many cases as the longest list is long."""
    columns = [list(each) for each in values.values()]
    cases = [
        tuple(column[row % len(column)] for column in columns)
        for row in range(max(map(len, columns)))
    ]
    return pytest.mark.parametrize(tuple(values), cases, ids=_words)


def every_pair(**values):
    """Every pair of values of two parameters occurs: few cases for three and more parameters.

    A case is begun with a pair that is still missing; each further parameter takes the value that
    adds the most missing pairs.
    """
    columns = [list(each) for each in values.values()]
    places = [[(axis, place) for place in range(len(each))] for axis, each in enumerate(columns)]
    missing = {
        frozenset((one, other)): None
        for ones, others in combinations(places, 2)
        for one in ones
        for other in others
    }
    cases = []
    while missing:
        chosen = dict(next(iter(missing)))
        for axis, candidates in enumerate(places):
            if axis not in chosen:
                taken = list(chosen.items())
                chosen[axis] = max(
                    candidates,
                    key=lambda each: sum(frozenset((each, other)) in missing for other in taken),
                )[1]
        for pair in combinations(chosen.items(), 2):
            missing.pop(frozenset(pair), None)
        cases.append(tuple(each[chosen[axis]] for axis, each in enumerate(columns)))
    return pytest.mark.parametrize(tuple(values), cases, ids=_words)


def _words(value):
    """The name of a tuple of words and numbers; pytest names other values."""
    is_plain = isinstance(value, tuple) and all(isinstance(each, str | int) for each in value)
    return "-".join(map(str, value)) if is_plain else None
