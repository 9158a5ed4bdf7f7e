"""Declared constraints accept what they say and name what they refuse."""

from types import SimpleNamespace

import numpy as np
import pytest

from discreg.base.validation import Boolean, Choice, Number, check_params


def test_numbers():
    number = Number(0, 1, closed="left")
    assert number.accepts(0)
    assert number.accepts(np.float32(0.5))
    assert not number.accepts(1.0)
    assert not number.accepts(True)
    assert not number.accepts("0.5")
    assert not Number().accepts(np.inf)
    assert Number(1, integer=True).accepts(np.int64(3))
    assert not Number(1, integer=True).accepts(3.0)
    assert str(number) == "a float in [0, 1)"
    assert str(Number(1, closed="left", integer=True)) == "an int in [1, inf)"


def test_choices_and_booleans():
    choice = Choice((None, "auto"), others=(Number(0, closed="neither"),))
    assert choice.accepts(None)
    assert choice.accepts("auto")
    assert choice.accepts(0.1)
    assert not choice.accepts(0)
    assert not choice.accepts(np.zeros(3))
    assert str(choice) == "None, 'auto' or a float in (0, inf)"
    assert Choice((), test=callable, described="a callable").accepts(len)
    assert Boolean().accepts(np.True_)
    assert not Boolean().accepts(1)


def test_message_names_estimator_parameter_constraint_and_value():
    class Model(SimpleNamespace):
        pass

    with pytest.raises(ValueError, match=r"The 'a' parameter of Model must be a bool\. Got 3 inst"):
        check_params(Model(a=3), {"a": Boolean()})
