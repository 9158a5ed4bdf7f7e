"""What a study says of fits that were not made."""

from discreg.comparison.running.store import Key
from discreg_reproduction.run import _notes


def key(model, fold):
    return Key("drm/table7/ecoli3", model, 0, fold)


def test_fits_that_cannot_be_made_and_fits_that_did_not_end_are_told_apart():
    notes = _notes(
        False,
        [key("KNN", 0)],
        failures={key("SVM", fold): "ValueError: singular\nin svm.py" for fold in range(2)},
        lost={key("DRM", 0): "the fit took longer than it may"},
        warnings={key("KNN", 0): ["slow"]},
    )
    assert list(notes) == [
        "SVM: 2 fits could not be made (ValueError: singular).",
        "DRM: 1 fit did not end (the fit took longer than it may); the same command tries again.",
        "KNN: 1 of the fits warned (slow).",
    ]
