"""An audit's parts: the sentence, the gate, the surrogates that fit, what is written for programs, and the object."""

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

import dowse
from dowse.audit import surrogates
from dowse.audit.advice import advice
from dowse.audit.looking import FirstLook, keep, kept_look
from dowse.audit.portfolio import audit_experiment, radii, rounds_of
from dowse.audit.requirements import check_requirements, judge, parse_requirement, passed
from dowse.audit.result import Audit, audit_of
from dowse.audit.sentence import sentence
from dowse.audit.standing import Picture, Standing, quantile
from dowse.audit.surrogates import Surrogates, fitting_surrogates
from dowse.core.outcome import End
from dowse.errors import InputError
from dowse.models import WeightsError
from dowse.running.interrupt import Interrupt
from tests.nets import Tanh
from tests.stores import CELL, Made, make_store
from tests.support import Counter, pictures
from tests.victims import ROWS, rows_seen, target

NEVER = math.inf
LINF = replace(CELL, norm="linf")
LOOK = FirstLook(
    {"target": CELL.target, "images": "set", "outputs": "logits", "asked": []},
    {"ok": True, "queries": 40, "sent": 40, "labels": [1], "findings": [
        {"check": "answer", "verdict": "good", "found": "it answers", "remedy": ""},
        {"check": "rounding", "verdict": "note", "found": "two decimals", "remedy": "a larger sigma= helps"},
    ]},
    Surrogates(("dowse:s",), 0, "Surrogate: s, as given."),
    100.0,
)  # fmt: skip


def standing(*taken: float, wrong: int = 0, budget: int = 1000, **more: Any) -> Standing:
    found = tuple(Picture(str(i), str(i), 1, queries) for i, queries in enumerate(taken))
    return Standing("l2", 12.3, budget, wrong, found, {"Square": taken}, **more)


NINETY_TWO = [2] * 20 + [3] * 26 + [40] * 37 + [310] * 9


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (standing(*NINETY_TWO),
         "Of the 92 pictures that your model gets right, half fall within 3 queries, 90 % within 40, all within 310."),
        (standing(2, 2, 2, 2), "Of the 4 pictures that your model gets right, all fall within 2 queries."),
        (standing(2, 2, 2, 1500, budget=2000),
         "Of the 4 pictures that your model gets right, half fall within 2 queries, all within 1,500."),
        (standing(5, 9, 9, NEVER),
         "Of the 4 pictures that your model gets right, half fall within 9 queries; 1 withstands 1,000 queries."),
        (standing(*[4] * 19, NEVER),
         "Of the 20 pictures that your model gets right, 90 % fall within 4 queries; 1 withstands 1,000 queries."),
        (standing(7, 80, NEVER, NEVER, NEVER),
         "Of the 5 pictures that your model gets right, 2 fall, the first within 7 queries, the last within 80; "
         "3 withstand 1,000 queries."),
        (standing(7, 7, NEVER, NEVER, NEVER),
         "Of the 5 pictures that your model gets right, 2 fall within 7 queries; 3 withstand 1,000 queries."),
        (standing(7, NEVER, NEVER),
         "Of the 3 pictures that your model gets right, 1 falls within 7 queries; 2 withstand 1,000 queries."),
        (standing(NEVER, NEVER), "None of the 2 pictures that your model gets right falls within 1,000 queries."),
        (standing(3), "The one picture that your model gets right falls within 3 queries."),
        (standing(NEVER), "The one picture that your model gets right withstands 1,000 queries."),
        (standing(2, 2, NEVER, NEVER, NEVER, detected=2),
         "Of the 5 pictures that your model gets right, 2 fall within 2 queries; 3 still stand, 2 of them because your "
         "model refused queries."),
        (standing(NEVER, NEVER, detected=2),
         "None of the 2 pictures that your model gets right falls within 1,000 queries, 2 of them because your model "
         "refused queries."),
        (standing(NEVER, detected=1),
         "The one picture that your model gets right still stands, because your model refused queries."),
        (standing(wrong=3), "Your model gets none of the 3 pictures right: there was nothing to attack."),
        (standing(), "No picture could be asked about."),
        (standing(2, 3, own_labels=True),
         "Of the 2 pictures, each taken as what your model says it is, half fall within 2 queries, all within 3."),
        (standing(NEVER, NEVER, own_labels=True),
         "None of the 2 pictures, each taken as what your model says it is, falls within 1,000 queries."),
        (standing(NEVER, own_labels=True),
         "The one picture, taken as what your model says it is, withstands 1,000 queries."),
    ],
)  # fmt: skip
def test_the_sentence(found: Standing, said: str) -> None:
    assert sentence(found) == said


def test_what_is_left() -> None:
    found = standing(2, 30, NEVER, wrong=1, budget=100)
    assert (found.total, found.right, found.fell, found.clean_accuracy) == (4, 3, 2, 0.75)
    assert [found.accuracy(q) for q in (0, 1, 2, 29, 30, 100)] == [0.75, 0.75, 0.5, 0.5, 0.25, 0.25]
    assert math.isnan(found.accuracy(101))
    assert [(p.queries, p.rate) for p in found.curve()] == [(1, 0.75), (2, 0.5), (30, 0.25), (100, 0.25)]
    assert all(p.low <= p.rate <= p.high for p in found.curve("Square"))
    assert math.isnan(quantile([], 0.5))


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("half >= 3", True), ("half >= 4", False), ("half > 3", False), ("first >= 2", True), ("90% >= 40", True),
        ("90 % > 40", False), ("all >= 310", True), ("l2 half >= 3", True), ("L2 Half >= 3", True),
        ("accuracy@3 >= 0.5", True), ("accuracy@1e3 > 0", False), ("accuracy@40 >= 9%", True),
        ("accuracy@1,000 >= 0", True), ("clean >= 0.99", True), ("half>=1", True),
    ],
)  # fmt: skip
def test_requirements(text: str, met: bool) -> None:
    (verdict,) = judge([parse_requirement(text)], [standing(*NINETY_TWO)])
    assert verdict.met is met
    assert passed([verdict]) is met
    assert verdict.word in str(verdict)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cannot read"), ("half", "cannot read"), ("half >= many", "cannot read"), ("half >= -3", "cannot read"),
        ("half <= 100", "floor"), ("half == 100", "floor"), ("hafl >= 3", "did you mean 'half'"),
        ("accuracy >= 0.3", "after how many"), ("accuracy@100 >= 30", "between 0 and 1"),
        ("accuracy@1.5 >= 0.3", "whole number"), ("accuracy@x >= 0.3", "no number"), ("half@3 >= 3", "only accuracy"),
        ("half >= 1e999", "no number that can"), ("accuracy@1e999 >= 0.3", "no number that can"),
        ("120% >= 3", "between 0 and 100"), ("half >= 3%", "leave the last %"), ("half >= 1e", "no number"),
    ],
)  # fmt: skip
def test_what_is_no_requirement(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_requirement(text)


def test_what_a_budget_cannot_tell() -> None:
    wanted = parse_requirement("half >= 100")
    check_requirements([wanted], 99, ["l2"])  # that fewer than half fell within 99 is enough
    with pytest.raises(InputError, match="--budget 99"):
        check_requirements([wanted], 98, ["l2"])
    with pytest.raises(InputError, match="--budget 1000"):
        check_requirements([parse_requirement("accuracy@1000 >= 0.3")], 999, ["l2"])
    with pytest.raises(InputError, match="is about linf, and the audit has l2"):
        check_requirements([parse_requirement("linf half >= 3")], 999, ["l2"])
    (verdict,) = judge([wanted], [standing(NEVER, NEVER, budget=10)])
    assert verdict.met is None
    assert not passed([verdict])
    (verdict,) = judge([wanted], [standing(NEVER, NEVER, budget=99)])
    assert verdict.met
    assert judge([wanted], [standing(200, 300, unfinished=1)])[0].met is None
    assert judge([wanted], [standing(wrong=2)])[0].met is None
    with pytest.raises(InputError, match="about linf"):
        judge([parse_requirement("linf half >= 3")], [standing(2)])
    assert passed([])


@pytest.fixture
def audit(tmp_path: Path) -> Audit:
    wrong = [End.ADVERSARIAL] * 3 + [End.BUDGET, End.ALREADY_WRONG]
    runs = [
        Made("Dowse", [2, 3, 40, None, 1], ends=wrong), Made("Square", [20, 2, 400, None, 1], ends=wrong),
        Made("Dowse", [2, 2, 2, 2, 2], LINF),
    ]  # fmt: skip
    requirements = [parse_requirement(text) for text in ("half >= 3", "l2 accuracy@1000 >= 0.2")]
    return audit_of(make_store(tmp_path, runs), None, LOOK, requirements, ["dowse", "audit", "--budget", "1000"])


def test_the_strongest_attack_counts(audit: Audit) -> None:
    l2, linf = audit.standings.values()
    assert [(one.attack, one.queries) for one in l2.pictures] == [
        ("Dowse", 2), ("Square", 2), ("Dowse", 40), (None, NEVER),
    ]  # fmt: skip
    assert (l2.wrong, l2.right, linf.right) == (1, 4, 5)
    assert audit.clean_accuracy == 0.8
    assert audit.robust_accuracy(norm="l2") == 0.2
    assert audit.robust_accuracy(1) == 0.8
    assert audit.robust_accuracy() == 0
    assert (audit.queries(0.5, "l2"), audit.queries(1, "l2"), audit.queries()) == (2, NEVER, 2)
    assert [one.met for one in audit.verdicts] == [False, False, True]
    assert not audit.met
    assert [one.met for one in audit.require("half >= 2")] == [True, True]
    with pytest.raises(InputError, match="up to the budget"):
        audit.robust_accuracy(1001)
    with pytest.raises(InputError, match="norm='l1'"):
        audit.robust_accuracy(norm="l1")


def test_attacks_that_are_level_are_strongest_together(tmp_path: Path) -> None:
    runs = [Made("Dowse", [2, 3, None]), Made("Square", [9, 2, None]), Made("Transfer", [2, None, None])]
    audit = audit_of(make_store(tmp_path, runs), None, LOOK)
    found = audit.standings["l2"]
    assert [one.attacks for one in found.pictures] == [("Dowse", "Transfer"), ("Square",), ()]
    assert [found.strongest_on(one) for one in found.attacks] == [1, 1, 1]
    assert "Dowse, Transfer" in audit.html()
    said = json.loads(audit.json())["norms"]["l2"]
    assert [(one["attack"], one["attacks"]) for one in said["strongest"]] == [
        ("Dowse", ["Dowse", "Transfer"]), ("Square", ["Square"]), (None, []),
    ]  # fmt: skip
    assert said["attacks"]["Transfer"]["strongest_on"] == 1


def test_an_attack_that_was_detected_is_no_defeat(tmp_path: Path) -> None:
    ends = [[End.DETECTED, End.DETECTED, End.BUDGET], [End.ADVERSARIAL, End.DETECTED, End.BUDGET]]
    runs = [Made(name, [5, 9, None], ends=found) for name, found in zip(("Dowse", "Square"), ends, strict=True)]
    found = audit_of(make_store(tmp_path, runs), None, LOOK).standings["l2"]
    assert (found.right, found.fell, found.detected) == (3, 1, 1)


def test_an_attack_that_has_ended_with_no_picture_says_nothing(tmp_path: Path) -> None:
    runs = [Made("Dowse", [2, 3]), Made("P-RGF", [1, 1], ends=[End.TARGET_FAILED] * 2)]
    audit = audit_of(make_store(tmp_path, runs), None, LOOK, [parse_requirement("half >= 1")])
    assert list(audit.standings["l2"].attacks) == ["Dowse"]
    assert audit.standings["l2"].unfinished == 2
    assert [one.met for one in audit.verdicts] == [None]
    assert "not done yet" in audit.html()


def test_json_and_junit(audit: Audit, tmp_path: Path) -> None:
    said = json.loads(audit.json(tmp_path / "a.json"))
    assert json.loads((tmp_path / "a.json").read_text()) == said
    l2 = said["norms"]["l2"]
    assert l2["sentence"] == audit.sentences["l2"]
    assert l2["falls_within"] == {"first": 2, "half": 2, "90%": None, "all": None}
    assert l2["accuracy"] == {"1": 0.8, "10": 0.4, "100": 0.2, "1000": 0.2}
    assert l2["attacks"]["Square"]["strongest_on"] == 1
    assert l2["strongest"][3] == {
        "picture": "0003.png",
        "label": 1,
        "attack": None,
        "attacks": [],
        "queries": None,
        "taken_for": None,
    }
    assert [one["met"] for one in said["gate"]["requirements"]] == [False, False, True]
    suite = ElementTree.fromstring(audit.junit(tmp_path / "a.xml")).find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures")) == ("4", "2")
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    assert list(cases) == ["first look", "half >= 3 (l2)", "half >= 3 (linf)", "l2 accuracy@1000 >= 0.2 (l2)"]
    failure = cases["half >= 3 (l2)"].find("failure")
    assert failure is not None
    assert failure.get("message") == "not met: half fall within 2 queries"
    assert ElementTree.parse(tmp_path / "a.xml").getroot().tag == "testsuites"


def test_the_page_says_it(audit: Audit, tmp_path: Path) -> None:
    page = audit.html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page
    for said in (*audit.sentences.values(), "Not passed", "1 of 3 requirements met", "not met", "Surrogate: s"):
        assert said in page
    assert page.index(audit.sentences["l2"]) < page.index("<main>")
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    (l2,) = data["tables"][0]["groups"]
    assert l2["left"][0][0] == data["strongest"] == data["methods"].index("Strongest attack on each")
    assert [point[:2] for point in l2["left"][0][1]] == [[1, 0.8], [2, 0.4], [40, 0.2], [1000, 0.2]]


def test_what_to_do_next(audit: Audit) -> None:
    said = advice(audit)
    more = next(one for one in said if "goes on with these alone" in one.said)
    assert more.command == "dowse audit --budget 10000"
    assert any("two decimals" in one.said for one in said)
    assert not any("Keep what you have" in one.said for one in said)
    free = advice(replace(audit, verdicts=(), look=replace(LOOK, surrogates=Surrogates(said="Surrogate: none; no."))))
    keep_it = next(one for one in free if "Keep what you have" in one.said)
    assert keep_it.command == "dowse audit --budget 1000 --require 'half >= 2'"


def test_what_is_said_of_surrogates_keeps_its_capitals(audit: Audit) -> None:
    chosen = Surrogates(said="Surrogate: none; nothing fits. An attacker has one: say --surrogate SPEC.")
    said = [one.said for one in advice(replace(audit, look=replace(LOOK, surrogates=chosen)))]
    assert "Nothing fits. An attacker has one: say --surrogate SPEC." in said


def test_nothing_is_advised_of_surrogates_that_were_refused_by_the_caller(audit: Audit) -> None:
    free = replace(LOOK, surrogates=Surrogates())
    assert not any("as asked for" in one.said for one in advice(replace(audit, look=free)))


def test_one_picture_and_one_attack_are_spoken_of_as_such(audit: Audit) -> None:
    alone = replace(audit, standings={"l2": standing(2)}, verdicts=())
    assert any(one.said.startswith("This is 1 picture: ") for one in advice(alone))
    assert "pays for all 2" in audit.html()
    one_attack = {norm: replace(one, attacks={"Square": one.taken}) for norm, one in audit.standings.items()}
    assert "pays for all" not in replace(audit, standings=one_attack).html()


def test_the_audit_of_a_defence_writes_over_no_file_of_this_one(audit: Audit) -> None:
    command = ("dowse", "audit", "--html", "a.html", "--json=a.json", "--junit", "a.xml", "--budget", "9")
    defended = next(one for one in advice(replace(audit, command=command)) if "with a defence" in one.said)
    assert defended.command is not None
    assert defended.command.startswith("dowse audit --budget 9 --target jpeg:75+")


def net_of(classes: int, says: list[int]) -> torch.nn.Module:
    return torch.nn.Sequential(_Says(classes, says))


class _Says(torch.nn.Module):
    def __init__(self, classes: int, says: list[int]) -> None:
        super().__init__()
        self.scores = torch.nn.functional.one_hot(torch.tensor(says), classes).float()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scores[: len(x)]


@pytest.fixture
def built_in(monkeypatch: pytest.MonkeyPatch) -> None:
    nets = {"alike": (10, [0, 1, 2, 9]), "twin": (10, [0, 1, 2, 3]), "other": (10, [5, 5, 5, 5]), "gone": (10, None)}
    specs = {name: SimpleNamespace(name=name, classes=k, input_size=4) for name, (k, _) in nets.items()}

    def resolve(spec: str) -> torch.nn.Module:
        classes, says = nets[spec.partition(":")[2]]
        if says is None:
            raise WeightsError("no weights")
        return net_of(classes, says)

    monkeypatch.setattr(surrogates.models, "names", lambda: tuple(nets))
    monkeypatch.setattr(surrogates.models, "spec", specs.__getitem__)
    monkeypatch.setattr(surrogates, "resolve_surrogate", resolve)


@pytest.mark.usefixtures("built_in")
def test_surrogates_that_fit() -> None:
    x = torch.rand(4, 3, 8, 8)
    found = fitting_surrogates("torch:mine:net", 10, x, [0, 1, 2, 3])
    assert found.specs == ("dowse:twin", "dowse:alike")
    assert found.class_offset == 0
    assert "twin (agrees with the target on 4 of 4)" in found.said
    assert fitting_surrogates("jpeg:75+dowse:twin", 10, x, [0, 1, 2, 3]).specs == ("dowse:alike",)
    shifted = fitting_surrogates("torch:mine:net", 11, x, [1, 2, 3, 4])
    assert (shifted.specs, shifted.class_offset) == (("dowse:twin", "dowse:alike"), -1)


@pytest.mark.usefixtures("built_in")
def test_names_of_classes_come_before_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    x, theirs = torch.rand(4, 3, 8, 8), [f"thing {i}" for i in range(10)]
    monkeypatch.setattr(surrogates, "names_of", lambda spec: theirs)
    spelled = [f"Thing_{i}, res {i}" for i in range(9)] + ["something else"]
    named = fitting_surrogates("torch:mine:net", 10, x, [7, 7, 7, 7], spelled)
    assert named.specs == ("dowse:alike", "dowse:twin")
    assert "chosen for class names that are the target's" in named.said
    behind = fitting_surrogates("torch:mine:net", 11, x, [1, 2, 3, 4], ["background", *spelled])
    assert (behind.specs[0], behind.class_offset) == ("dowse:twin", -1)
    turned = fitting_surrogates("torch:mine:net", 10, x, [0, 1, 2, 3], theirs[::-1])
    assert turned.specs == ()
    assert "call them otherwise, or count them in another order" in turned.said
    fewer = fitting_surrogates("torch:mine:net", 10, x, [0, 1, 2, 3], theirs[:7])
    assert fewer.specs == ("dowse:twin", "dowse:alike")
    assert "nobody says what the target's classes are called" in fewer.said


@pytest.mark.usefixtures("built_in")
def test_no_surrogate_fits() -> None:
    x = torch.rand(4, 3, 8, 8)
    assert "no built-in network has 7 classes" in fitting_surrogates("torch:m:n", 7, x, [0, 1, 2, 3]).said
    other = fitting_surrogates("torch:m:n", 10, x, [7, 7, 7, 7])
    assert other.specs == ()
    assert "say something else of most pictures" in other.said
    assert fitting_surrogates("torch:m:n", 10, x[:, :1], [0, 1, 2, 3]).specs == ()
    assert fitting_surrogates("torch:m:n", None, x, []).specs == ()


def test_a_look_is_used_again_for_the_same_alone(tmp_path: Path) -> None:
    assert kept_look(tmp_path, LOOK.about, []) is None
    keep(tmp_path, LOOK)
    about = {word: value for word, value in LOOK.about.items() if word != "asked"}
    assert kept_look(tmp_path, about, []) == LOOK
    assert kept_look(tmp_path, about, ["none"]) is None
    assert kept_look(tmp_path, {**about, "target": "dowse:other"}, []) is None


def test_the_portfolio_and_its_rounds() -> None:
    alone = audit_experiment({"spec": "dowse:cifar10_resnet20"}, {"path": "images", "count": None})
    assert [one.name for one in alone.method] == ["dowse", "square"]
    assert (alone.said("norm"), alone.said("budget")) == (("l2", "linf"), 1000)
    helped = audit_experiment({"spec": "dowse:x"}, {"path": "images"}, surrogates=["dowse:a", "dowse:b"], budget=5000)
    assert [one.name for one in helped.method] == ["dowse", "square", "transfer", "prgf"]
    assert helped.said("surrogate") == (["dowse:a", "dowse:b"],)
    rounds = rounds_of(helped)
    assert [one.said("budget") for one in rounds] == [10, 100, 1000]
    assert [len(one.method) for one in rounds] == [3, 4, 4]  # P-RGF cannot make a step with 10
    assert radii({"l2": 1.0}, ["l2", "linf"]) == {"l2": 1.0}
    assert radii(0.5, ["l2"]) == 0.5
    with pytest.raises(InputError, match="a radius in one norm"):
        radii(0.5, ["l2", "linf"])
    with pytest.raises(InputError, match="eps has a radius in linf, and the audit has l2"):
        radii({"l2": 1.0, "linf": 0.03}, ["l2"])


def test_time_is_over_by_itself() -> None:
    interrupt = Interrupt()
    with interrupt.after(None):
        assert not interrupt.wanted
    with interrupt.after(0.0):
        while not interrupt.wanted:
            pass
    assert interrupt.late


def test_benchmark_is_the_audit_of_a_model_at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ROWS, str(tmp_path / "rows"))
    x = pictures(3)
    audit = dowse.benchmark(
        target().eval(), x, surrogate=Tanh(1, near=Tanh(0)), budget=60, eps={"l2": 0.5, "linf": 0.15},
        require=["half >= 1"], out=tmp_path / "out", name="tiny",
    )  # fmt: skip
    assert audit.name == "tiny"
    assert audit.met
    assert list(audit.standings) == ["l2", "linf"]
    assert [*audit.standings["l2"].attacks] == ["Dowse", "Square", "Transfer", "P-RGF"]
    assert audit.clean_accuracy == 1  # its own labels
    assert audit.standings["l2"].own_labels
    assert "your model says it is" in audit.sentences["l2"]
    assert audit.robust_accuracy(60) <= audit.robust_accuracy(1) == 1
    assert audit.sentences["linf"] in audit.html()
    seen = sum(rows_seen(tmp_path / "rows").values())
    again = dowse.benchmark(
        target().eval(),
        x,
        surrogate=Tanh(1, near=Tanh(0)),
        budget=60,
        eps={"l2": 0.5, "linf": 0.15},
        out=tmp_path / "out",
    )
    looked = again.look.preflight["sent"]
    assert sum(rows_seen(tmp_path / "rows").values()) == seen + looked  # the first look alone
    assert again.standings == audit.standings


def test_benchmark_takes_a_function_and_labels_and_minutes() -> None:
    net, x = Tanh(0), pictures(4)
    y = net(x).argmax(1)
    y[0] = (y[0] + 1) % 4
    audit = dowse.benchmark(lambda points: net(points), x, y, surrogate=None, budget=30, minutes=5.0, norms=["linf"])
    assert audit.clean_accuracy == 0.75
    assert [*audit.standings] == ["linf"]
    assert audit.standings["linf"].budget == 30
    assert "none, as asked for" in audit.look.surrogates.said


def test_benchmark_takes_one_word_for_a_list_and_numbers_of_numpy() -> None:
    net = Tanh(0)
    audit = dowse.benchmark(
        net, pictures(2), surrogate=None, norms="l2", methods="square", require="half >= 1",
        budget=np.int64(5), seed=np.int32(3), eps=np.float32(0.5),
    )  # fmt: skip
    assert [*audit.standings] == ["l2"]
    assert [*audit.standings["l2"].attacks] == ["Square"]
    assert audit.standings["l2"].budget == 5
    assert [one.requirement.text for one in audit.verdicts] == ["half >= 1"]


def test_benchmark_looks_at_a_model_in_its_own_precision() -> None:
    net = Tanh(0).double()
    audit = dowse.benchmark(net, pictures(2).double(), surrogate=None, norms="l2", methods="square", budget=5)
    assert [one["found"] for one in audit.look.wrong] == []
    assert audit.standings["l2"].right == 2


@pytest.mark.parametrize(("budget", "got"), [(0, "0"), (20.0, "20.0")])
def test_benchmark_refuses_a_budget_that_counts_nothing(budget: Any, got: str) -> None:
    net = Counter(Tanh(0))
    with pytest.raises(InputError, match=f"budget counts and must be a whole number of at least 1, got {got}"):
        dowse.benchmark(net, pictures(1), surrogate=None, budget=budget)
    assert net.rows == 0


def test_benchmark_of_wrong_labels_says_what_to_do_in_python_too() -> None:
    net, x = Tanh(0), pictures(2)
    wrong = (net(x).argmax(1) + 1) % 4
    with pytest.raises(dowse.TargetFailedError, match=r"had no image to attack.*in Python y=None"):
        dowse.benchmark(net, x, wrong, surrogate=None, budget=5, norms="l2")
