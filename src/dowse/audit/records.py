"""An audit for programs: JSON with every number, and JUnit for build servers."""

import math
from importlib.metadata import version
from typing import Any
from xml.etree import ElementTree

from dowse.audit.advice import advice
from dowse.audit.requirements import Judgement
from dowse.audit.result import Audit, as_plain
from dowse.audit.sentence import sentence
from dowse.audit.standing import Standing, quantile

SHARES = {"first": 0.0, "half": 0.5, "90%": 0.9, "all": 1.0}


def record(audit: Audit) -> dict[str, Any]:
    """An audit as plain data; a number of queries that is infinite, or a number that does not exist, is null."""
    return {
        "dowse": version("dowse"),
        "model": audit.name,
        "target": audit.look.about["target"],
        "surrogates": list(audit.look.surrogates.specs),
        "surrogates_said": audit.look.surrogates.said,
        "clean_accuracy": as_plain(audit.clean_accuracy),
        "norms": {norm: _norm(standing) for norm, standing in audit.standings.items()},
        "gate": {"met": audit.met, "requirements": [_verdict(one) for one in audit.verdicts]},
        "next": [{"said": one.said, "command": one.command} for one in advice(audit)],
        "preflight": audit.look.preflight,
        "store": str(audit.folder),
    }


def marks_up_to(budget: int) -> list[int]:
    """The queries at which accuracy is told: 1, 10, 100, … and the budget."""
    powers = [10**i for i in range(len(str(budget)))]
    return sorted({*powers, budget})


def _norm(standing: Standing) -> dict[str, Any]:
    return {
        "sentence": sentence(standing),
        "eps": as_plain(standing.eps),
        "budget": standing.budget,
        "pictures": standing.total,
        "right": standing.right,
        "fell": standing.fell,
        "unfinished": standing.unfinished,
        "detected": standing.detected,
        "own_labels": standing.own_labels,
        "clean_accuracy": as_plain(standing.clean_accuracy),
        "falls_within": {word: as_plain(standing.falls_within(share)) for word, share in SHARES.items()},
        "accuracy": {str(q): as_plain(standing.accuracy(q)) for q in marks_up_to(standing.budget)},
        "attacks": {
            name: {
                "pictures": len(taken),
                "fell": sum(map(math.isfinite, taken)),
                "strongest_on": standing.strongest_on(name),
                "falls_within": {word: as_plain(quantile(taken, share)) for word, share in SHARES.items()},
            }
            for name, taken in standing.attacks.items()
        },
        "strongest": [
            {
                "picture": one.name, "label": one.label, "attack": one.attack, "attacks": list(one.attacks),
                "queries": as_plain(one.queries),
                "taken_for": None if one.row is None else one.row.predicted,
            }
            for one in standing.pictures
        ],
    }  # fmt: skip


def _verdict(verdict: Judgement) -> dict[str, Any]:
    return {
        "requirement": verdict.requirement.text, "norm": verdict.norm, "met": verdict.met, "verdict": verdict.word,
        "value": as_plain(verdict.value), "said": verdict.said,
        "interval": None if not verdict.between else [as_plain(end) for end in verdict.interval],
    }  # fmt: skip


def junit(audit: Audit) -> str:
    """A test suite with a test a requirement and norm, and one for the first look; what is not met fails."""
    wrong = audit.look.wrong
    suite = ElementTree.Element(
        "testsuite", name="dowse audit", tests=str(1 + len(audit.verdicts)), errors="0", skipped="0",
        failures=str(bool(wrong) + sum(one.met is not True for one in audit.verdicts)),
    )  # fmt: skip
    told = ElementTree.SubElement(suite, "properties")
    for norm, said in audit.sentences.items():
        ElementTree.SubElement(told, "property", name=f"sentence {norm}", value=said)
    look = ElementTree.SubElement(suite, "testcase", classname=f"dowse audit.{audit.name}", name="first look")
    for finding in wrong:
        said = f"{finding['check']}: {finding['found']}"
        ElementTree.SubElement(look, "failure", message=said).text = f"{said}\n{finding['remedy']}"
    for verdict in audit.verdicts:
        name = f"{verdict.requirement.text} ({verdict.norm})"
        case = ElementTree.SubElement(suite, "testcase", classname=f"dowse audit.{audit.name}", name=name)
        if verdict.met is not True:
            failure = ElementTree.SubElement(case, "failure", message=f"{verdict.word}: {verdict.said}")
            failure.text = audit.sentences[verdict.norm]
        else:
            ElementTree.SubElement(case, "system-out").text = verdict.said
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"
