"""Which work a time budget allows."""

from discreg.auto._search import Clock


def test_the_largest_piece_of_work_measures_the_speed():
    clock = Clock(10.0)
    clock.learn("LSR", 1e9, 1.0)
    assert clock.allows("LSR", 9e9)
    assert not clock.allows("LSR", 1.1e10)
    clock.learn("LSR", 1e6, 1.0)  # small work is slow for its size
    assert clock.allows("LSR", 9e9)
    clock.learn("LSR", 1e9, 2.0)  # of equal work, the slower counts
    assert not clock.allows("LSR", 9e9)
    clock.learn("LSR", 1e10, 1.0)
    assert clock.allows("LSR", 9e10)
    assert not clock.allows("DRM", 9e10)  # nothing is known of its speed
