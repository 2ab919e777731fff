"""The law of independence: an image's result is its own, whoever is attacked beside it and however rows are packed."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dowse
from dowse.attacks.registry import METHODS
from dowse.core.seeds import image_id, row_seeds, stream
from tests.support import Counter, Noisy, Tanh, labels_of, pictures

TARGET = Tanh(0)
SURROGATE = Tanh(1, near=TARGET, apart=2.0)
PICTURES = pictures(5)
LABELS = labels_of(TARGET, PICTURES)
NOISY = Noisy(TARGET, 0.02)
RUN = {"surrogate": SURROGATE, "budget": 60, "eps": 0.35}


def run_of(name):
    """A short run of a method, its questions small enough for several iterations."""
    small = {"q": 8, "coordinates": 4, "memory": 12}
    few_steps = {"steps": 2, "budget": 30} if name in ("pbo", "bases") else {}  # each query is many steps inside
    options = {option: small[option] for option in small if option in METHODS[name].options()}
    return {"method": name, **RUN, **options, **few_steps}


def facts(outcome):
    """All of an outcome but its position, to be compared to the last bit."""
    return (
        outcome.id, outcome.end, outcome.queries, outcome.sent, outcome.label, outcome.loss, outcome.distance,
        outcome.adversarial.numpy().tobytes(),
    )  # fmt: skip


def attack(target, indices, **run):
    indices = list(indices)
    result = dowse.attack(target, PICTURES[indices], LABELS[indices], **run)
    return {i: facts(outcome) for i, outcome in zip(indices, result.outcomes, strict=True)}


def alone(target, **run):
    return {i: attack(target, [i], concurrency=1, **run)[i] for i in range(len(PICTURES))}


@pytest.mark.parametrize("target", [TARGET, NOISY], ids=["plain", "noisy"])
@pytest.mark.parametrize("method", sorted(METHODS))
def test_alone_and_among_neighbours(method, target):
    run = run_of(method)
    by_itself = alone(target, **run)
    assert len({f[2] for f in by_itself.values()}) > 1 or method in {
        "transfer",
        "bases",
    }  # images end at different times
    for order, concurrency, batch_size in [
        ((0, 1, 2, 3, 4), 8, None), ((4, 2, 0, 3, 1), 2, 1), ((3, 1), 3, 7), ((2, 4, 1, 0), 1, 3),
    ]:  # fmt: skip
        assert attack(target, order, concurrency=concurrency, batch_size=batch_size, **run) == {
            i: by_itself[i] for i in order
        }


@settings(max_examples=40)
@given(
    st.sampled_from(sorted(METHODS)),
    st.permutations(range(5)),
    st.integers(1, 5),
    st.integers(1, 6),
    st.none() | st.integers(1, 30),
    st.sampled_from(["iterate", "any"]),
    st.booleans(),
)
def test_any_company(method, order, n, concurrency, batch_size, accept, noisy):
    target, run = NOISY if noisy else TARGET, {**run_of(method), "accept": accept}
    together = attack(target, order[:n], concurrency=concurrency, batch_size=batch_size, **run)
    last = order[n - 1]
    assert together[last] == attack(target, [last], concurrency=1, **run)[last]


@pytest.mark.parametrize("target", [TARGET, NOISY], ids=["plain", "noisy"])
def test_the_company_may_fail(target):
    """A neighbour that ends early, by whatever end, changes nothing for the others."""
    run = run_of("prgf")
    by_itself = alone(target, **run)
    wrong = LABELS.clone()
    wrong[1] = (wrong[1] + 1) % 4
    result = dowse.attack(target, PICTURES, wrong, concurrency=3, **run)
    assert result.end[1] is dowse.End.ALREADY_WRONG
    assert all(facts(result.outcomes[i]) == by_itself[i] for i in (0, 2, 3, 4))


def test_stream_and_attack_agree():
    run = run_of("prgf")
    items = [(x, int(y)) for x, y in zip(PICTURES, LABELS, strict=True)]
    outcomes = sorted(dowse.stream(TARGET, iter(items), concurrency=2, **run), key=lambda outcome: outcome.index)
    together = attack(TARGET, range(5), **run)
    assert [facts(outcome) for outcome in outcomes] == [together[i] for i in range(5)]


@pytest.mark.parametrize("method", sorted(set(METHODS) - {"transfer", "whitebox", "signhunter", "bases"}))
def test_same_seed_same_answer_another_seed_another(method):
    run = run_of(method)
    first, again = (attack(TARGET, range(5), seed=3, **run) for _ in range(2))
    assert first == again
    other = attack(TARGET, range(5), seed=4, **run)
    assert any(first[i] != other[i] for i in range(5))


def test_the_global_seed_changes_nothing():
    answers = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        answers.append(attack(NOISY, range(3), **run_of("prgf")))
    assert answers[0] == answers[1]


def test_duplicates_in_one_batch_have_one_answer():
    x, y = PICTURES[[0, 1, 0, 0]], LABELS[[0, 1, 0, 0]]
    result = dowse.attack(NOISY, x, y, concurrency=3, **run_of("rgf"))
    first, _, second, third = map(facts, result.outcomes)
    assert first == second == third
    assert [outcome.index for outcome in result.outcomes] == [0, 1, 2, 3]


def test_ids_name_the_stream():
    run, x, y = run_of("rgf"), PICTURES[[0, 0, 0]], LABELS[[0, 0, 0]]
    result = dowse.attack(TARGET, x, y, ids=["a", "b", "a"], **run)
    a, b, same = (facts(outcome)[1:] for outcome in result.outcomes)
    assert [outcome.id for outcome in result.outcomes] == ["a", "b", "a"]
    assert a == same != b


def test_an_id_is_made_of_pixels_and_label():
    x = PICTURES[0]
    assert image_id(x, 1) == image_id(x.clone(), 1) == image_id(x.permute(1, 2, 0).contiguous().permute(2, 0, 1), 1)
    others = [image_id(x, 2), image_id(x, None), image_id(PICTURES[1], 1), image_id(x.float(), 1)]
    others += [image_id(x.reshape(4, 3, 4), 1)]
    assert len({image_id(x, 1), *others}) == 6


def test_a_label_has_one_name_however_it_comes():
    run, label = run_of("rgf"), int(LABELS[0])
    forms = [(PICTURES[0], label), (PICTURES[0], LABELS[0]), dowse.Image(PICTURES[0], LABELS[0])]
    ids = {next(iter(dowse.stream(TARGET, [form], **run))).id for form in forms}
    assert len(ids) == 1


def test_streams_and_row_seeds_differ_wherever_their_keys_do():
    keys = list(itertools.product((0, 1), ("a", "b"), ("rgf", "prgf")))
    draws = {tuple(torch.rand(3, generator=stream(*key)).tolist()) for key in keys}
    assert len(draws) == len(keys)
    rows = torch.cat([row_seeds(seed, name, 0, 500) for seed in (0, 1) for name in ("a", "b")])
    assert rows.min() >= 0
    assert len(rows.unique()) == len(rows)
    assert torch.equal(row_seeds(0, "a", 0, 500)[123:], row_seeds(0, "a", 123, 377))


def test_row_seeds_count_queries():
    """Query number k of an image has the same seed whatever the packing: the defence's noise is the image's own."""
    seen = []

    class Recording(Noisy):
        def forward(self, x, seeds):
            seen.extend(seeds.tolist())
            return super().forward(x, seeds)

    result = dowse.attack(
        Counter(Recording(TARGET, 0.0)), PICTURES[:1], LABELS[:1], ids=["a"], **{**run_of("rgf"), "eps": 1e-3}
    )
    assert seen == row_seeds(0, "a", 0, int(result.queries[0])).tolist()


def test_a_target_that_scribbles_on_its_input_harms_nobody():
    def scribbling(x):
        scores = TARGET(x)
        x.fill_(7.0)
        return scores

    run, x = {**run_of("rgf"), "concurrency": 1}, PICTURES.clone()
    clean, dirty = (dowse.attack(target, x, LABELS, **run) for target in (TARGET, scribbling))
    assert torch.equal(x, PICTURES)
    assert [facts(a) for a in clean.outcomes] == [facts(b) for b in dirty.outcomes]
