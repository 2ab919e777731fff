"""The guided denoiser: its network, its training, its files, and what the shipped ones do to accuracy."""

import csv
from importlib import resources

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from typer.testing import CliRunner

import dowse
from dowse import models
from dowse.cli import app
from dowse.defences import Denoiser, DenoisingUNet, load_denoiser, save_denoiser, shipped_denoiser
from dowse.defences.denoiser import stand_out, strengthened
from dowse.defences.measure import craft, measure_defence
from dowse.defences.train_denoiser import Learner, Training, craft_noise, draw, write_curve
from dowse.images.sources import open_images
from dowse.models.mobilenet import MobileNetV2
from dowse.targets import resolve_target
from tests.nets import Waves
from tests.support import Linear, generator

EPS = 0.1


class Small(nn.Module):
    """A fixed random classifier of small images."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        rng = generator(seed)
        self.filters = nn.Parameter(torch.randn(12, 3, 3, 3, generator=rng), requires_grad=False)
        self.mix = nn.Parameter(torch.randn(5, 12 * 4, generator=rng), requires_grad=False)
        self.eval()

    def forward(self, x):
        features = F.adaptive_avg_pool2d(torch.relu(F.conv2d(x - 0.5, self.filters, padding=1)), 2)
        return features.flatten(1) @ self.mix.T


def images(n=24, side=16, seed=0):
    coarse = torch.rand(n, 3, 5, 5, generator=generator(seed))
    return F.interpolate(coarse, size=(side, side), mode="bicubic").clamp(0.05, 0.95)


def trained(unet, seed=0):
    """A U-Net whose weights are all random, the last layer's too."""
    rng = generator(seed)
    with torch.no_grad():
        for parameter in unet.parameters():
            parameter.copy_(0.2 * torch.randn(parameter.shape, generator=rng))
    return unet.eval()


def table_of(path):
    with path.open(newline="") as file:
        return list(csv.reader(file))


class TestTheNetwork:
    @pytest.mark.parametrize("shuffle", [1, 2, 3])
    def test_untrained_it_changes_nothing(self, shuffle):
        x = images(2)
        assert torch.equal(Denoiser(lambda seen: seen, DenoisingUNet((4, 8), shuffle).eval())(x), x)

    @pytest.mark.parametrize(("shuffle", "detail"), [(1, False), (2, False), (1, True), (2, True)])
    @pytest.mark.parametrize("size", [(1, 1), (7, 16), (17, 9), (32, 32)])
    def test_any_size_comes_back_at_its_size(self, size, shuffle, detail):
        unet = trained(DenoisingUNet((4, 8, 8), shuffle, detail))
        x = torch.rand(2, 3, *size, generator=generator(0))
        dx = unet(x)
        assert dx.shape == x.shape
        assert dx.any()
        torch.testing.assert_close(Denoiser(lambda seen: seen, unet)(x), x - dx)

    def test_what_stands_out_is_the_difference_to_the_neighbourhood(self):
        flat = torch.full((1, 3, 5, 5), 0.4)
        torch.testing.assert_close(stand_out(flat), torch.zeros_like(flat))
        flat[0, 1, 2, 2] += 0.9
        expected = torch.zeros_like(flat)
        expected[0, 1, 1:4, 1:4] = -0.1
        expected[0, 1, 2, 2] = 0.8
        torch.testing.assert_close(stand_out(flat), expected)

    def test_strengthened_it_predicts_more_and_the_weaker_one_stays(self):
        unet, x = trained(DenoisingUNet((4, 8), 2, detail=True)), images(2)
        before, weights = unet(x), [weight.clone() for weight in unet.parameters()]
        torch.testing.assert_close(strengthened(unet, 1.8)(x), 1.8 * before)
        assert all(map(torch.equal, unet.parameters(), weights))
        with pytest.raises(dowse.InputError, match="strength"):
            strengthened(unet, 0.0)

    def test_no_rows_are_no_rows(self):
        assert trained(DenoisingUNet((4, 8)))(torch.empty(0, 3, 16, 16)).shape == (0, 3, 16, 16)

    def test_a_row_does_not_depend_on_its_neighbours(self):
        unet, x = trained(DenoisingUNet((4, 8))), images(5)
        assert torch.allclose(torch.cat([unet(row[None]) for row in x]), unet(x), atol=1e-6)

    def test_gradients_pass(self):
        x = images(2).requires_grad_()
        defended = Denoiser(Small(), trained(DenoisingUNet((4,))))
        assert defended.differentiable
        assert torch.autograd.grad(defended(x).sum(), x)[0].any()

    @pytest.mark.parametrize(("channels", "shuffle"), [((), 1), ((4, 0), 1), ((4,), 0)])
    def test_an_impossible_shape_is_refused(self, channels, shuffle):
        with pytest.raises(dowse.InputError, match="at least 1"):
            DenoisingUNet(channels, shuffle)


class TestItsFile:
    def test_it_is_the_same_to_sixteen_bits(self, tmp_path):
        unet, x = trained(DenoisingUNet((4, 8), 2)), images(3)
        save_denoiser(unet, tmp_path / "d.safetensors")
        again = load_denoiser(tmp_path / "d.safetensors")
        assert (again.channels, again.shuffle) == ((4, 8), 2)
        assert not again.training
        assert not any(parameter.requires_grad for parameter in again.parameters())
        with torch.no_grad():
            before, after = unet(x), again(x)
        assert float((after - before).abs().max()) < 0.01 * float(before.abs().max())

    def test_a_spec_names_it(self, tmp_path, shared, monkeypatch):
        monkeypatch.setenv("DOWSE_SHARED", str(shared))
        save_denoiser(trained(DenoisingUNet((4,))), tmp_path / "d.safetensors")
        target = resolve_target(f"denoiser:{tmp_path / 'd.safetensors'}+dowse:cifar10_resnet20")
        assert isinstance(target, Denoiser)
        assert target.unet.channels == (4,)

    @pytest.mark.parametrize("content", [b"", b"not a safetensors file", None])
    def test_another_file_is_refused(self, tmp_path, content):
        path = tmp_path / "d.safetensors"
        if content is None:
            from safetensors.torch import save_file

            save_file({"weight": torch.zeros(3)}, path)
        else:
            path.write_bytes(content)
        with pytest.raises(dowse.InputError, match="is no denoiser that `dowse train-denoiser` wrote"):
            load_denoiser(path)

    def test_none_ships_for_another_classifier(self):
        with pytest.raises(dowse.InputError, match="no denoiser comes with Dowse for this Small"):
            shipped_denoiser(Small())


class TestTheNoise:
    def test_fgsm_on_a_linear_net_is_the_sign_of_its_weights(self):
        W = torch.randn(2, 12, generator=generator(0), dtype=torch.float64)
        net, x = Linear(W, torch.zeros(2, dtype=torch.float64)), torch.full((4, 3, 2, 2), 0.5, dtype=torch.float64)
        label = int(net(x).argmax(1)[0])
        noise = craft(net, x, EPS, steps=4)
        expected = EPS * (W[1 - label] - W[label]).sign().view(1, 3, 2, 2).expand_as(x)
        assert torch.allclose(noise.fgsm, expected)
        assert torch.allclose(noise.mi_fgsm, expected)

    def test_it_stays_in_its_ball_and_leaves_an_image(self):
        x = images()
        x[0], x[1] = 0, 1
        for noise in craft(Small(), x, EPS, steps=5):
            assert float(noise.abs().max()) <= EPS * (1 + 1e-6)
            assert ((x + noise >= 0) & (x + noise <= 1)).all()

    def test_it_bites_and_the_longer_one_harder(self):
        net, x = Small(), images(64)
        labels = net(x).argmax(1)
        loss = [float(F.cross_entropy(net(x + δ), labels)) for δ in (0 * x, *craft(net, x, 0.03, steps=6))]
        assert loss[0] < loss[1] < loss[2]

    def test_kinds_of_noise(self):
        training = Training(eps=EPS, batch=10, attack_steps=2)
        calls = []
        nets = [Waves(seed, dtype=torch.float32) for seed in (0, 1)]  # no sign hangs on the rows beside
        noise = craft_noise(images(), nets, training, lambda *call: calls.append(call))
        assert noise.shape == (4, 24, 3, 16, 16)
        assert calls == [(10, 48), (20, 48), (24, 48), (34, 48), (44, 48), (48, 48)]
        expected = craft(nets[1], images(), EPS, steps=2).mi_fgsm
        assert torch.allclose(noise[3] * (EPS / 127), expected, atol=EPS / 254 + 1e-6)


class TestTheBatch:
    def test_noise_sits_on_its_own_pixels(self):
        """Noise that is +ε where the image is bright and −ε elsewhere stays so through crops and flips."""
        x = images()
        noise = torch.where(x > 0.5, 127, -127).to(torch.int8).expand(2, *x.shape)
        training = Training(batch=200, crop=9, eps=EPS, clean=0.25)
        clean, noisy = draw(x, noise, training, generator(0))
        assert clean.shape == noisy.shape == (200, 3, 9, 9)
        δ = noisy - clean
        assert float(δ.abs().max()) <= EPS + 1e-6
        assert ((noisy >= 0) & (noisy <= 1)).all()
        untouched = (δ == 0).flatten(1).all(1)
        assert 0.25 * 200 - 25 < untouched.sum() < 0.25 * 200 + 25
        assert ((δ > 0) == (clean > 0.5))[~untouched].all()
        sizes = δ[~untouched].flatten(1).abs().amax(1)
        assert sizes.min() < 0.2 * EPS
        assert sizes.max() > 0.8 * EPS

    def test_crops_are_of_the_images(self):
        x = torch.arange(4 * 3 * 16 * 16, dtype=torch.float32).view(4, 3, 16, 16) / 4e3
        clean, _ = draw(x, torch.zeros(1, 4, 3, 16, 16, dtype=torch.int8), Training(batch=40, crop=5), generator(0))
        across = (clean[:, 0, 0, 1] - clean[:, 0, 0, 0]) * 4e3
        assert set(across.round().tolist()) == {-1.0, 1.0}  # as it was, and mirrored
        assert torch.allclose((clean[:, 0, 1, 0] - clean[:, 0, 0, 0]) * 4e3, torch.tensor(16.0), atol=1e-2)


class TestTheTraining:
    training = Training(steps=24, batch=8, eps=EPS, channels=(8, 16), attack_steps=2, rate=1e-2)

    @pytest.fixture
    def noise(self):
        return craft_noise(images(), [Small(), Small(1)], self.training)

    def test_the_loss_falls(self, noise):
        learner = Learner(Small(), Training(**{**vars(self.training), "steps": 80, "clean": 0.0}))
        steps = list(learner.run(images(), noise))
        assert [step.number for step in steps] == list(range(1, 81))
        assert np.mean(learner.losses[-20:]) < 0.8 * np.mean(learner.losses[:5])

    def test_warming_up_compares_pixels_and_asks_the_classifier_nothing(self, noise):
        class Asked(Small):
            calls = 0

            def forward(self, x):
                self.calls += 1
                return super().forward(x)

        net = Asked()
        training = Training(**{**vars(self.training), "steps": 6, "warm_up": 4, "detail": True})
        learner = Learner(net, training)
        for step in learner.run(images(), noise):
            assert net.calls == 2 * max(0, step.number - 4)
        clean, noisy = draw(images(), noise, training, generator(training.seed))
        assert learner.losses[0] == pytest.approx(float((noisy - clean).abs().mean()))

    @pytest.mark.parametrize("warm_up", [0, 5, 11, 12])
    def test_it_goes_on_as_if_it_had_never_stopped(self, noise, tmp_path, warm_up):
        training = Training(**{**vars(self.training), "warm_up": warm_up})
        whole = Learner(Small(), training)
        list(whole.run(images(), noise))
        first = Learner(Small(), training)
        for step in first.run(images(), noise):
            if step.number == 11:
                first.save(tmp_path / "checkpoint.pt")
                break
        second = Learner(Small(), training)
        second.restore(tmp_path / "checkpoint.pt")
        assert len(second.losses) == 11
        list(second.run(images(), noise))
        assert second.losses == whole.losses
        for a, b in zip(second.unet.state_dict().values(), whole.unet.state_dict().values(), strict=True):
            assert torch.equal(a, b)
        assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.pt"]

    def test_it_begins_with_other_weights_of_its_shape(self):
        learner, other = Learner(Small(), self.training), trained(DenoisingUNet(self.training.channels))
        learner.begin_with(other)
        for ours, theirs in zip(learner.unet.state_dict().values(), other.state_dict().values(), strict=True):
            assert torch.equal(ours, theirs)
        with pytest.raises(dowse.InputError, match="train with the same shape"):
            learner.begin_with(DenoisingUNet(self.training.channels, detail=True))

    def test_the_classifier_and_the_global_generator_stay_as_they_are(self, noise):
        net, state = Small(), torch.get_rng_state()
        before = net.mix.clone()
        list(Learner(net, Training(**{**vars(self.training), "steps": 2})).run(images(), noise))
        assert torch.equal(net.mix, before)
        assert torch.equal(torch.get_rng_state(), state)

    def test_a_checkpoint_of_another_training_is_refused(self, tmp_path):
        Learner(Small(), self.training).save(tmp_path / "c.pt")
        other = Learner(Small(), Training(**{**vars(self.training), "rate": 0.5}))
        with pytest.raises(dowse.InputError, match=r"of another training \({'rate': 0.01} there\)"):
            other.restore(tmp_path / "c.pt")

    @pytest.mark.parametrize(
        ("made", "message"),
        [
            (lambda: Training(steps=0), "steps"),
            (lambda: Training(steps=5, warm_up=6), "warm_up must be between 0 and steps"),
            (lambda: Training(eps=0.0), "eps"),
            (lambda: Training(eps=12.0), "eps"),
            (lambda: Training(clean=1.5), "clean"),
            (lambda: craft_noise(images(), [], Training()), "at least one net"),
            (lambda: craft_noise(images()[:, :1], [Small()], Training()), "images \\(n, 3, H, W\\)"),
            (lambda: craft_noise(images(), [Small()], Training(crop=17)), "crop=17 is larger"),
        ],
    )
    def test_an_impossible_training_is_refused(self, made, message):
        with pytest.raises(dowse.InputError, match=message):
            made()

    def test_the_curve(self, tmp_path):
        table, picture = write_curve([3.0, 2.5, 2.0] * 10, tmp_path)
        rows = table_of(table)
        assert rows[0] == ["step", "loss"]
        assert rows[2] == ["2", "2.5"]
        assert len(rows) == 31
        assert picture.read_bytes().startswith(b"\x89PNG")
        write_curve([], tmp_path)
        write_curve([0.1] * 5, tmp_path, warm_up=10)
        write_curve([0.1] * 10 + [2.0] * 30, tmp_path, warm_up=10)


def brightness(x):
    """A target that is no network."""
    return x.mean((2, 3))


class TestTheCommand:
    @pytest.fixture
    def arguments(self, tmp_path, shared, monkeypatch):
        monkeypatch.setenv("DOWSE_SHARED", str(shared))
        with np.load(shared / "data" / "cifar10_test1000.npz") as arrays:
            np.savez(tmp_path / "few.npz", images=arrays["images"][:20], labels=arrays["labels"][:20])
        return [
            "train-denoiser", "--target", "dowse:cifar10_resnet20", "--images", str(tmp_path / "few.npz"),
            "--out", str(tmp_path / "out"), "--steps", "3", "--batch", "4", "--channels", "4,4", "--hold-out", "8",
        ]  # fmt: skip

    def test_it_trains_measures_and_goes_on(self, arguments, tmp_path):
        more = ["--source", "dowse:cifar10_adv_resnet2b", "--test-source", "dowse:cifar10_resnet32", "--test-eps", "4"]
        done = CliRunner().invoke(app, [*arguments, *more])
        assert done.exit_code == 0, done.output
        out = tmp_path / "out"
        assert {path.name for path in out.iterdir()} == {
            "accuracy.csv", "checkpoint.pt", "denoiser.safetensors", "loss.csv", "loss.png",
        }  # fmt: skip
        assert "accuracy on 8 images" in done.output
        assert [row[0] for row in table_of(out / "accuracy.csv")] == ["noise", "clean", "FGSM", "MI-FGSM"]
        assert load_denoiser(out / "denoiser.safetensors").channels == (4, 4)
        again = CliRunner().invoke(app, arguments)
        assert again.exit_code == 0
        assert "going on from step 3 of 3" in again.output

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            (["--hold-out", "20"], "leaves nothing"),
            (["--hold-out", "0", "--test-source", "dowse:cifar10_resnet32"], "give --test-images or --hold-out"),
            (["--channels", "4,x"], "--channels must be numbers"),
            (["--target", "dowse:cifar10_resnet21"], "did you mean"),
            (["--target", f"python:{__name__}:brightness", "--size", "32"], "the target to defend must be a torch net"),
            (["--images", "nowhere"], "nowhere"),
        ],
    )
    def test_what_it_cannot_do_it_says(self, arguments, more, message):
        done = CliRunner().invoke(app, [*arguments, *more])
        assert done.exit_code == 2, done.output
        assert message in done.output


CIFAR = ("cifar10_resnet20", "cifar10_resnet56", 500_000)
IMAGENET = ("imagenet_mobilenetv2", "imagenet_resnet18", 2_000_000)


def shipped(name):
    file = resources.files("dowse.defences") / "weights" / f"denoiser_{name}.safetensors"
    if not file.is_file():
        pytest.skip(f"no denoiser ships for {name}: train one with `dowse train-denoiser` (docs/defences.md)")
    return file


class TestWhatShips:
    @pytest.mark.parametrize(("name", "limit"), [(CIFAR[0], CIFAR[2]), (IMAGENET[0], IMAGENET[2])])
    def test_it_is_small(self, name, limit):
        assert 0 < len(shipped(name).read_bytes()) < limit

    def test_it_is_found_by_the_classifier(self):
        shipped(IMAGENET[0])
        net = MobileNetV2().eval()
        assert isinstance(shipped_denoiser(net), DenoisingUNet)
        other = Denoiser.for_spec(Small(), "imagenet_mobilenetv2").unet  # by name, for a network that has none
        assert all(map(torch.equal, other.parameters(), shipped_denoiser(net).parameters()))
        assert shipped_denoiser(Denoiser(net, DenoisingUNet((4,)).eval())).channels == shipped_denoiser(net).channels

    def test_at_cifar_size_it_keeps_its_promise(self, shared):
        """The 200 images that it was not trained on, noise of 4/255 from a net that it was not trained on."""
        self.promise(shared, open_images(shared / "data" / "cifar10_test1000.npz").load(), slice(800, 1000), CIFAR, 4)

    @pytest.mark.long
    def test_at_imagenet_size_it_keeps_its_promise(self, shared):
        """Forty images of another set than the training's; docs/defences.md has the figures for all 500."""
        few = open_images(shared / "data" / "nips17_dev500").load(40)
        self.promise(shared, few, slice(0, 40), IMAGENET, 8)

    def promise(self, shared, images, rows, names, levels):
        shipped(names[0])
        folder = shared / "models" / "weights"
        net, source = (models.load(name, folder / (models.spec(name).shared_file or "")) for name in names[:2])
        defended = Denoiser(net, shipped_denoiser(net))
        clean, _, iterated = measure_defence(
            net, defended, source, images.images[rows], images.labels[rows], [levels / 255]
        )
        assert clean.defended >= clean.undefended - 0.03 - 1e-9
        assert iterated.defended >= iterated.undefended + 0.15
