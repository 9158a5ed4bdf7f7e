"""Every classifier has probabilities that agree with its predictions, calibrated in `fit`."""

import pickle
import warnings

import numpy as np
import pytest
from every_classifier import MODELS, every_classifier, every_model, make
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn import config_context
from sklearn.datasets import load_wine, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import scale

import discreg
from discreg import load_model, save_model

BALANCED = ("LRLRClassifier", "LRRRClassifier", "SLRRClassifier")  # weigh all classes equally
OF_SHARES = [name for name in MODELS if name not in BALANCED]
STREAMED = [name for name in MODELS if name != "LDMClassifier"]


def linear(name):
    model = make(name)
    return model.set_params(kernel="linear") if "kernel" in model.get_params() else model


def noisy(n_samples=90, n_classes=3, seed=0):
    X, y = make_classification(
        n_samples,
        6,
        n_informative=4,
        n_classes=n_classes,
        n_clusters_per_class=1,
        flip_y=0.2,
        random_state=seed,
    )
    return X, y


@every_classifier
@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_agree_with_predictions(name, n_classes):
    X, y = noisy(n_classes=n_classes)
    labels = np.array(["no", "yes", "zebra"])[y]
    model = make(name).fit(X[:60], labels[:60])
    shares = model.predict_proba(X)
    assert shares.shape == (90, n_classes)
    assert_allclose(shares.sum(axis=1), 1)
    assert np.all(shares >= 0)
    if name.removesuffix("CV") not in BALANCED:
        assert_array_equal(model.classes_[shares.argmax(axis=1)], model.predict(X))
    assert_allclose(np.exp(model.predict_log_proba(X)), shares, rtol=1e-9)
    sets = model.predict_set(X)
    assert np.all(sets[np.arange(90), shares.argmax(axis=1)])


@every_model
def test_held_out_scores_are_those_of_the_training_samples(name):
    X, y = noisy(n_classes=2)
    model = make(name).fit(X, y)
    scores = model.held_out_decision_function_
    assert scores.shape == (90,)
    closed = ("LSR", "LRLR", "LRRR", "DRM")
    expected = "one row at a time" if name.startswith(closed) else "5 folds"
    assert model.held_out_by_ == expected
    held_out, seen = np.mean((scores > 0) == y), model.score(X, y)
    assert held_out <= seen
    assert held_out > 0.6


@every_model
def test_probabilities_are_better_than_those_of_training_scores(name):
    """Mean log-loss on new samples over ten draws of forty samples with twenty features."""
    losses = []
    for seed in range(10):
        X, y = make_classification(
            540, 20, n_informative=4, n_classes=2, flip_y=0.2, random_state=seed
        )
        X, X_test, y, y_test = train_test_split(X, y, train_size=40, stratify=y, random_state=seed)
        model = make(name).fit(X, y)
        shares = model.predict_proba(X_test)[:, 1]
        platt = LogisticRegression(C=1e6, fit_intercept=False)
        platt.fit(model.decision_function(X)[:, None], y)
        theirs = platt.predict_proba(model.decision_function(X_test)[:, None])[:, 1]
        losses.append([log_loss(y_test, shares), log_loss(y_test, theirs)])
    ours, of_training = np.mean(losses, axis=0)
    assert ours < of_training
    assert ours < 0.75  # constant probabilities have 0.69


@every_model
def test_weight_k_calibrates_as_k_equal_rows(name):
    X, y = noisy(60)
    copies = np.random.default_rng(0).integers(0, 4, 60)
    weighted = make(name).fit(X, y, copies.astype(float))
    repeated = make(name).fit(np.repeat(X, copies, axis=0), np.repeat(y, copies))
    assert weighted.inverse_temperature_ == pytest.approx(repeated.inverse_temperature_, rel=1e-4)
    assert_array_equal(weighted.predict_set(X), repeated.predict_set(X))


@every_model
def test_rows_of_weight_zero_do_not_calibrate(name):
    X, y = noisy()
    weights = np.ones(90)
    weights[::3] = 0
    zeros = make(name).fit(X, y, weights)
    without = make(name).fit(X[weights > 0], y[weights > 0])
    tolerance = {"rel": 1e-4}
    if name in ("ODMClassifier", "LDMClassifier", "DRMClassifier"):
        without = make(name, gamma=0.2).fit(X[weights > 0], y[weights > 0])
        zeros = make(name, gamma=0.2).fit(X, y, weights)
    assert zeros.inverse_temperature_ == pytest.approx(without.inverse_temperature_, **tolerance)
    unseen = weights == 0
    assert_allclose(
        zeros.held_out_decision_function_[unseen], zeros.decision_function(X[unseen]), atol=1e-8
    )


@every_classifier
def test_a_class_of_one_sample_is_named_and_has_probabilities(name):
    X, y = noisy()
    X, y = np.vstack([X, X[:1] + 5]), np.append(y, 7)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = make(name).fit(X, y)
    messages = [str(each.message) for each in caught]
    assert any("Class 7 has only one distinct row, which cannot be held out" in m for m in messages)
    shares = model.predict_proba(X)
    assert shares.shape == (91, 4)
    assert np.isfinite(shares).all()
    if name in MODELS:
        assert not hasattr(model, "held_out_decision_function_")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "name", [each for each in MODELS if each[:4] not in ("LRLR", "LRRR", "SLRR")]
)
def test_predictions_agree_with_probabilities_that_need_offsets(name, dtype):
    """Four unequal classes: without offsets, probabilities would not have their shares."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1_300, 5)).astype(dtype)
    logits = X[:, :4] * [1.2, 1.0, 0.8, 0.6] + [0.8, 0.3, 0.0, -1.2]
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    model = make(name).fit(X[:300], y[:300])
    shares = model.predict_proba(X[300:])
    assert_array_equal(shares.argmax(axis=1), model.predict(X[300:]))


@every_model
def test_classes_that_all_have_one_sample_are_not_calibrated(name):
    X, _ = noisy()
    with pytest.warns(UserWarning, match="not calibrated, and prediction sets contain all classes"):
        model = make(name).fit(X[:4], np.arange(4))
    assert model.predict_set(X[4:6]).all()


@every_model
def test_perfect_separation_has_finite_probabilities(name):
    X = np.vstack([np.eye(3)[k] * 100 + 0.01 * np.eye(3)[[j]] for k in range(3) for j in range(3)])
    X, y = np.vstack([X, X + 0.02]), np.tile(np.repeat(np.arange(3), 3), 2)
    model = make(name).fit(X, y)
    shares = model.predict_proba(X)
    assert np.isfinite(model.inverse_temperature_)
    assert model.inverse_temperature_ > 0
    assert np.isfinite(model.predict_log_proba(X)).all()
    assert np.all((shares > 0) & (shares < 1)) or shares.max() <= 1


@every_model
def test_few_samples_have_probabilities(name):
    X, y = noisy(8, n_classes=2)
    model = make(name).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()


@every_model
def test_no_probabilities_without_the_parameter(name):
    X, y = noisy()
    model = make(name).fit(X, y).set_params(probability=False).fit(X, y)
    for attribute in (
        *("predict_proba", "predict_log_proba", "predict_set"),
        *("inverse_temperature_", "held_out_decision_function_", "held_out_by_"),
    ):
        assert not hasattr(model, attribute)
    with pytest.raises(AttributeError) as caught:
        _ = model.predict_proba
    assert "Set probability=True before fit" in str(caught.value.__cause__)


@every_model
def test_types_of_the_samples(name):
    X, y = noisy()
    X = X.astype(np.float32).astype(np.float64)  # rows are assigned to folds by their values
    dense = make(name).fit(X, y)
    from_sparse = make(name).fit(sparse.csr_array(X), y)
    assert_allclose(
        from_sparse.predict_proba(sparse.csr_array(X)), dense.predict_proba(X), atol=1e-5
    )
    single = make(name).fit(X.astype(np.float32), y)
    shares = single.predict_proba(X.astype(np.float32))
    assert shares.dtype == np.float32
    assert_allclose(shares, dense.predict_proba(X), atol=1e-2)


@every_model
def test_predictions_change_nothing(name):
    X, y = noisy()
    model = make(name).fit(X, y)
    before = pickle.dumps(model)
    model.predict_proba(X)
    model.predict_set(X, class_conditional=True)
    assert pickle.dumps(model) == before


@every_model
def test_saved_models_predict_the_same_sets(name, tmp_path):
    X, y = noisy()
    model = make(name).fit(X, y)
    save_model(model, tmp_path / "model.skops")
    for loaded in (load_model(tmp_path / "model.skops"), pickle.loads(pickle.dumps(model))):
        assert_allclose(loaded.predict_proba(X), model.predict_proba(X), rtol=1e-12)
        assert_array_equal(loaded.predict_set(X, 0.8), model.predict_set(X, 0.8))


@pytest.mark.parametrize("name", STREAMED)
def test_rows_in_blocks_have_the_probabilities_of_an_array(name, tmp_path):
    X, y = noisy(3_000)
    whole = linear(name).fit(X, y)
    np.save(tmp_path / "X.npy", X)
    with config_context(working_memory=0.03):
        blocks = linear(name).fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y)
    if whole.held_out_by_ == "one row at a time":
        assert blocks.inverse_temperature_ == pytest.approx(whole.inverse_temperature_, rel=1e-4)
        assert_allclose(blocks.predict_proba(X), whole.predict_proba(X), atol=1e-4)
        assert_array_equal(blocks.predict_set(X[:500]), whole.predict_set(X[:500]))
    else:
        assert blocks.held_out_by_ == "600 rows"
        atol = 1e-3 * np.abs(whole.decision_function(X)).max()
        assert_allclose(blocks.decision_function(X), whole.decision_function(X), atol=atol)
        losses = [log_loss(y, each.predict_proba(X)) for each in (blocks, whole)]
        assert losses[0] == pytest.approx(losses[1], abs=0.01)


IN_PARTS = [name for name in MODELS if hasattr(linear(name), "partial_fit")]


@pytest.mark.parametrize("name", IN_PARTS)
def test_parts_have_the_probabilities_of_all_rows(name):
    X, y = noisy(400)
    whole = linear(name).fit(X, y)
    parts = linear(name)
    for rows in (slice(0, 150), slice(150, 400)):
        parts.partial_fit(X[rows], y[rows], classes=[0, 1, 2])
    assert parts.inverse_temperature_ == pytest.approx(whole.inverse_temperature_, rel=1e-6)
    one, two = linear(name), linear(name)
    one.partial_fit(X[:150], y[:150], classes=[0, 1, 2])
    two.partial_fit(X[150:], y[150:], classes=[0, 1, 2])
    merged = one.merge(two)
    assert merged.inverse_temperature_ == pytest.approx(whole.inverse_temperature_, rel=1e-6)
    assert not hasattr(parts, "held_out_decision_function_")
    assert b"_partial_fit_state" in pickle.dumps(parts)
    assert pickle.loads(pickle.dumps(parts))._partial_fit_state.kept is None
    assert parts._partial_fit_state.kept is not None


@every_model
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 1.0, 1: 10.0}])
def test_probabilities_estimate_the_population_whatever_the_class_weight(name, class_weight):
    X, y = make_classification(
        3_400, 8, weights=[0.9], n_informative=4, n_redundant=0, flip_y=0.05, random_state=0
    )
    model = make(name, class_weight=class_weight).fit(X[:400], y[:400])
    assert model.predict_proba(X[400:])[:, 1].mean() == pytest.approx(y[400:].mean(), abs=0.04)
    if class_weight is not None:
        plain = make(name).fit(X[:400], y[:400])
        assert model.predict(X[400:]).mean() >= plain.predict(X[400:]).mean()


@every_model
def test_sample_weights_define_the_population(name):
    X, y = noisy(300, n_classes=2)
    weights = np.where(y == 1, 4.0, 1.0)
    model = make(name).fit(X, y, weights)
    wanted = np.average(y, weights=weights)
    assert np.average(model.predict_proba(X)[:, 1], weights=weights) == pytest.approx(
        wanted, abs=0.06
    )


@every_model
def test_heavy_weights_find_no_structure_in_noise(name):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 5)), np.arange(80) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # worse than chance
        model = make(name).fit(X, y, np.full(80, 10.0))
    assert np.mean((model.held_out_decision_function_ > 0) == y) < 0.68
    X_new, y_new = rng.normal(size=(2_000, 5)), rng.integers(0, 2, 2_000)
    covered = model.predict_set(X_new, 0.9)[np.arange(2_000), y_new].mean()
    assert covered > 0.8


def test_scores_worse_than_chance_give_the_class_frequencies():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 3)), np.repeat([0, 1], [45, 15])
    # The model without a row of the majority is drawn to the other rows.
    with pytest.warns(UserWarning, match="worse than chance: .*class frequencies"):
        model = discreg.LSRClassifier(beta=1e6).fit(X, y)
    assert_allclose(model.predict_proba(X), [[0.75, 0.25]] * 60, rtol=1e-12)
    assert model.predict_set(X, 0.7).any(axis=1).all()


def test_probabilities_of_wine_are_calibrated():
    """Log-loss on held-out quarters; with training scores it would be 0.35."""
    X, y = load_wine(return_X_y=True)
    X = scale(X)
    losses = []
    for seed in range(5):
        train, test = train_test_split(np.arange(178), stratify=y, random_state=seed)
        model = discreg.ReLSRClassifier().fit(X[train], y[train])
        losses.append(log_loss(y[test], model.predict_proba(X[test])))
    assert np.mean(losses) < 0.1


def patients(n_patients, n_visits, seed):
    rng = np.random.default_rng(seed)
    y = np.arange(n_patients) % 2
    centres = rng.normal(size=(n_patients, 15))
    centres[:, 0] += y
    X = np.repeat(centres, n_visits, axis=0) + 0.1 * rng.normal(size=(n_patients * n_visits, 15))
    return X, np.repeat(y, n_visits), np.repeat(np.arange(n_patients), n_visits)


@pytest.mark.parametrize("name", ["LSR", "LRRR", "DRM", "ODM"])
def test_a_search_with_groups_calibrates_on_new_groups(name):
    X, y, groups = patients(40, 4, seed=0)
    X_new, y_new, _ = patients(1_000, 1, seed=1)
    search = make(f"{name}ClassifierCV")
    for given in (groups, None):
        search.fit(X, y, groups=given)
        sets = search.predict_set(X_new, 0.9)
        covers = sets[np.arange(len(y_new)), y_new].mean() > 0.83
        assert covers == (given is not None)
    search.fit(X, y, groups=groups)
    assert search.held_out_by_ == "5 folds of whole groups"


def test_folds_hold_out_rows_whose_leave_one_out_is_not_determined():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 100)), np.arange(40) % 2
    X[:, 0] += 20 * y
    model = discreg.LSRClassifier(beta=0.0).fit(X, y)
    assert model.held_out_by_ == "5 folds"
    assert np.mean((model.held_out_decision_function_ > 0) == y) > 0.9


@pytest.mark.parametrize("name", IN_PARTS)
def test_a_loaded_model_keeps_its_calibration_until_it_has_seen_as_many_rows(name):
    X, y = load_wine(return_X_y=True)
    X = scale(X)
    first, second = np.arange(len(y)) % 2 == 0, np.arange(len(y)) % 2 == 1
    model = linear(name).partial_fit(X[first], y[first], classes=np.unique(y))
    loaded = pickle.loads(pickle.dumps(model))
    loaded.partial_fit(X[second][:6], y[second][:6])
    assert loaded.inverse_temperature_ == model.inverse_temperature_
    loaded.partial_fit(X[second][6:], y[second][6:])
    loaded.partial_fit(X[first][:6], y[first][:6])
    assert loaded.inverse_temperature_ != model.inverse_temperature_


def test_models_from_other_processes_merge():
    X, y = load_wine(return_X_y=True)
    here, there = (slice(start, None, 2) for start in (0, 1))
    whole = discreg.LSRClassifier().fit(X, y)

    def part(rows, **params):
        return discreg.LSRClassifier(**params).partial_fit(X[rows], y[rows], classes=[0, 1, 2])

    sent = pickle.loads(pickle.dumps(part(there)))
    for merged in (part(here).merge(sent), pickle.loads(pickle.dumps(sent)).merge(part(here))):
        assert_allclose(merged.coef_, whole.coef_, atol=1e-9)
        assert merged.predict_proba(X).shape == (len(y), 3)
    with pytest.raises(ValueError, match="Set probability=False"):
        pickle.loads(pickle.dumps(part(here))).merge(sent)
    sent = [pickle.loads(pickle.dumps(part(rows, probability=False))) for rows in (here, there)]
    assert_allclose(sent[0].merge(sent[1]).coef_, whole.coef_, atol=1e-9)


def test_groups_may_outnumber_the_rows_of_every_class():
    X, y = load_wine(return_X_y=True)
    rows = np.r_[0:4, 60:64]
    search = make("ReLSRClassifierCV", betas=[0.1]).fit(X[rows], y[rows], groups=np.arange(8))
    assert search.best_estimator_.held_out_by_ == "5 folds of whole groups"
    assert np.isfinite(search.predict_proba(X)).all()
