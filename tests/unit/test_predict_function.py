"""A target handed to others: numpy in and out, counted, whatever stands behind it."""

import numpy as np
import pytest
import torch

import dowse
from dowse.core.target import Target
from tests.support import Noisy, Tanh, pictures

NET = Tanh(0, dtype=torch.float32)
X = pictures(5, dtype=torch.float32)


def test_it_answers_as_the_target_does():
    predict = dowse.predict_function(NET)
    scores = predict(X.numpy())
    assert scores.dtype == np.float32
    assert np.array_equal(scores, NET(X).detach().numpy())
    assert np.array_equal(predict(X.numpy().astype(np.float64)), scores), "in the precision of the network"
    assert predict.queries == 10
    assert predict(X[:0].numpy()).shape == (0, 4)


def test_in_passes_of_a_size():
    sizes = []

    def model(x):
        sizes.append(len(x))
        return NET(x)

    dowse.predict_function(model, batch_size=2)(X.numpy())
    assert sizes == [2, 2, 1]


def test_scores_are_as_the_model_gives_them():
    predict = dowse.predict_function(lambda x: NET(x).softmax(1).numpy(force=True))
    assert np.allclose(predict(X.numpy()), NET(X).softmax(1).detach().numpy())


def test_noise_is_drawn_anew_for_each_row():
    predict = dowse.predict_function(Noisy(NET, 0.1))
    same = np.repeat(X[:1].numpy(), 2, axis=0)
    first, second = predict(same), predict(same)
    assert len({row.tobytes() for row in np.concatenate([first, second])}) == 4


def test_specs_and_what_they_declare(tmp_path, monkeypatch):
    (tmp_path / "their_function.py").write_text("def f(x):\n    return x.reshape(len(x), -1)[:, :2]\n")
    monkeypatch.chdir(tmp_path)
    predict = dowse.predict_function("python:their_function:f#shape=3x4x4")
    assert predict.input_shape == (3, 4, 4)
    assert np.array_equal(predict(X.numpy()), X.flatten(1)[:, :2].numpy())


@pytest.mark.parametrize("images", [np.zeros((2, 3, 4, 4), np.uint8), np.zeros((3, 4, 4), np.float32), [[1.0]]])
def test_what_are_no_images(images):
    with pytest.raises(dowse.InputError, match=r"images must be floats \(n, C, H, W\) in \[0, 1\], got"):
        dowse.predict_function(NET)(images)


def test_a_target_that_fails_raises_its_cause():
    class Gone(Target):
        def __call__(self, points, seeds=None):
            raise ConnectionError("nobody listens")

    with pytest.raises(ConnectionError, match="nobody listens"):
        dowse.predict_function(Gone())(X.numpy())
