"""Attacks of ART and foolbox against a Dowse target, through the function that it is handed over as."""

import warnings

import numpy as np
import pytest
import torch

import dowse
from tests.support import Tanh, labels_of, pictures

pytestmark = pytest.mark.install

NET = Tanh(0, dtype=torch.float32)
X = pictures(4, dtype=torch.float32)
Y = labels_of(NET, X)


@pytest.fixture(autouse=True)
def their_warnings():
    """What these packages warn of is theirs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_art():
    classification = pytest.importorskip("art.estimators.classification")
    evasion = pytest.importorskip("art.attacks.evasion")
    predict = dowse.predict_function(NET)
    victim = classification.BlackBoxClassifierNeuralNetwork(
        predict, input_shape=(3, 4, 4), nb_classes=4, channels_first=True, clip_values=(0, 1)
    )
    assert np.allclose(victim.predict(X.numpy()), NET(X).detach().numpy())
    np.random.seed(0)  # noqa: NPY002 ART draws from there
    attack = evasion.HopSkipJump(victim, max_iter=1, max_eval=20, init_eval=5, init_size=20, verbose=False)
    found = attack.generate(X.numpy())
    assert found.shape == X.shape
    assert predict.queries > 4
    fooled = labels_of(NET, torch.from_numpy(found)) != Y
    assert np.array_equal(victim.predict(found).argmax(1) != Y.numpy(), fooled.numpy())


def test_foolbox():
    eagerpy = pytest.importorskip("eagerpy")
    models = pytest.importorskip("foolbox.models")
    predict = dowse.predict_function(NET)
    victim = models.NumPyModel(predict, bounds=(0, 1), data_format="channels_first")
    assert np.allclose(victim(eagerpy.astensor(X.numpy())).raw, NET(X).detach().numpy())
    assert predict.queries == 4
