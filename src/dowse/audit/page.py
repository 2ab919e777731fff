"""The audit as one HTML file: the sentence first, the gate, the curve, each picture's strongest attack, what to do."""

import math
from typing import Any

from dowse.audit.advice import advice
from dowse.audit.records import marks_up_to
from dowse.audit.result import Audit
from dowse.audit.sentence import sentence, where
from dowse.audit.standing import Picture, Standing, quantile
from dowse.images.class_names import class_name
from dowse.report.data.names import ball, captions, norm_sign
from dowse.report.html.facts import commands, facts, specs
from dowse.report.html.gallery import collect
from dowse.report.html.listings import Line, Listing
from dowse.report.html.script_data import curve_data, script_data
from dowse.report.html.shell import render_page
from dowse.store import Store
from dowse.wording import NONE, percent, queries

SCRIPTS = ("base", "axes", "legend", "reading", "curves", "left", "gallery", "dialog", "ready")
STRONGEST = "Strongest attack on each"
SHOWN, LISTED = 12, 200  # pictures of the table at first, and on a click; JSON has all


def page(audit: Audit) -> str:
    """The page of an audit."""
    with Store(audit.folder) as store:
        gallery = collect(audit.report, store, traces=False)
    verdicts, standings = audit.verdicts, list(audit.standings.values())
    said = commands(audit.report, "")[:-1]
    return render_page(
        "audit.html",
        title=f"Audit of {audit.name}",
        home="dowse.audit",
        styles=("page.css", "audit.css"),
        scripts=SCRIPTS,
        filters=(sentence, where, norm_sign),
        sections=_sections(bool(verdicts), bool(gallery.strips)),
        data=_data(audit, script_data(audit.report, gallery)),
        audit=audit,
        standings=standings,
        met=sum(one.met is True for one in verdicts),
        advice=advice(audit),
        captions=captions(audit.report.tables),
        specs=specs(audit.report),
        facts=_facts(audit),
        attacks=[_attacks(one, ball(table)) for one, table in zip(standings, audit.report.tables, strict=True)],
        strongest=_strongest(audit),
        look=_look(audit),
        gallery=gallery,
        commands=said,
    )


def _sections(gate: bool, pictures: bool) -> dict[str, tuple[str, str]]:
    sections = (
        ("gate", "The gate", "Gate", gate),
        ("left", "Accuracy left against queries spent", "Curve", True),
        ("next", "What to do next", "Next", True),
        ("attacks", "Attack by attack", "Attacks", True),
        ("strongest", "The strongest attack on each picture", "Pictures", True),
        ("gallery", "Gallery", "Gallery", pictures),
        ("look", "The first look", "First look", True),
        ("setup", "Commands", "Commands", True),
    )
    return {key: (name, link) for key, name, link, shown in sections if shown}


def _facts(audit: Audit) -> dict[str, list[str]]:
    """What was run, without what the sentences say already."""
    return {word: lines for word, lines in facts(audit.report).items() if word != "Loss and seed"}


def _data(audit: Audit, data: dict[str, Any]) -> dict[str, Any]:
    """What the script draws from: the report's data, and the curves of what is left."""
    strongest = len(data["methods"])
    for table, standing in zip(data["tables"], audit.standings.values(), strict=True):
        names = {m: data["methods"][m] for m in table["methods"]}
        curves = [[strongest, curve_data(standing.curve())]]
        curves += [[m, curve_data(standing.curve(name))] for m, name in names.items() if name in standing.attacks]
        (group,) = table["groups"]
        group["left"] = curves
    return data | {"methods": [*data["methods"], STRONGEST], "strongest": strongest}


def _attacks(standing: Standing, caption: str) -> Listing:
    """What each attack did by itself, the strongest of each picture first."""
    marks = marks_up_to(standing.budget)[1:]
    heads = ("Attack", "Pictures that fall", "Half within", "90 % within", "All within", "Strongest on",
             *(f"Accuracy after {q:,}" for q in marks))  # fmt: skip
    lines = [_attack(STRONGEST, standing.taken, standing, marks, NONE)]
    for name, taken in standing.attacks.items():
        lines.append(_attack(name, taken, standing, marks, f"{standing.strongest_on(name):,}"))
    return Listing(f"Attacks, {caption}", heads, lines, (0,), "counts")


def _attack(name: str, taken: tuple[float, ...], standing: Standing, marks: list[int], on: str) -> Line:
    fell, total = sum(map(math.isfinite, taken)), standing.wrong + len(taken)
    left = [sum(one > q for one in taken) / total if total else math.nan for q in marks]
    words = (f"{fell:,} of {len(taken):,}", *(queries(quantile(taken, share)) for share in (0.5, 0.9, 1.0)), on)
    return Line(name, (*words, *map(percent, left)))


def _strongest(audit: Audit) -> list[Listing]:
    """Each picture and what it fell to in each norm, the weakest first: those shown at once, and the others."""
    by_picture: dict[str, dict[str, Picture]] = {}
    for norm, standing in audit.standings.items():
        for picture in standing.pictures:
            by_picture.setdefault(picture.checksum, {})[norm] = picture
    classes = audit.report.columns[0][1].classes
    weakest = sorted(by_picture.values(), key=lambda found: sorted(one.queries for one in found.values()))
    heads = ["Picture", "Class"]
    for norm in audit.standings:
        heads += [f"{norm_sign(norm)}: falls to", "Queries", "Taken for"]
    lines = []
    for found in weakest[:LISTED]:
        first = next(iter(found.values()))
        words = [class_name(classes, first.label)]
        for norm in audit.standings:
            one = found.get(norm)
            if one is None or one.row is None:
                words += [NONE if one is None else "nothing", "" if one is None else "∞", ""]
            else:
                words += [", ".join(one.attacks), queries(one.queries), class_name(classes, one.row.predicted)]
        lines.append(Line(first.name, words))
    text = (0, 1, *(place for i in range(len(audit.standings)) for place in (2 + 3 * i, 4 + 3 * i)))
    label = "The strongest attack on each picture"
    return [Listing(label, heads, some, text, "strongest") for some in (lines[:SHOWN], lines[SHOWN:]) if some]


def _look(audit: Audit) -> Listing:
    """What was found before the first attack."""
    lines = [
        Line(one["check"], (one["verdict"], one["found"], one["remedy"].replace("`", "") or NONE))
        for one in audit.look.preflight["findings"]
    ]
    return Listing("The first look", ("Looked at", "Verdict", "Found", "What to do"), lines, range(4), "options look")
