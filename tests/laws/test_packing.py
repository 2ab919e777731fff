"""The laws of packing: a store that is packed and unpacked has the same rows, and packs into the same bytes."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from dowse.core.outcome import End
from dowse.experiment.spec import PlannedRun
from dowse.images.image_set import Entry
from dowse.store import Row, Store, StoreWriter
from dowse.store.events import Ended
from dowse.store.pack import pack, packed_of, unpack
from dowse.store.packed import joined_rows, plain_row
from dowse.store.traces import pack as traced
from tests.stores import CELL

whole = st.integers(0, 2**40)
label = st.none() | st.integers(-1, 2**62)
number = st.none() | st.floats(allow_nan=True, allow_infinity=True)
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)  # no half characters: no store keeps them
rows = st.builds(
    Row, run=st.just(""), position=st.just(0), name=words, checksum=st.from_regex(r"[0-9a-f]{16}", fullmatch=True),
    end=st.sampled_from(End), queries=whole, sent=whole, budget=whole, label=label, target_label=label, predicted=label,
    confidence=number, confidence_before=number, l2=number, linf=number, loss=number,
    seconds=st.floats(0, 1e9), seed=st.integers(-(2**62), 2**62), cause=st.none() | words,
    saved_adversarial=st.none() | st.booleans(), saved_inside=st.none() | st.booleans(), saved_distance=number,
    saved_queries=whole, verified=whole, refused=whole, queries_until_detected=label,
)  # fmt: skip
titles = st.lists(words, min_size=1, max_size=3)


def written(folder: Path, titles: list[str], found: list[Row]) -> Path:
    """A store of these rows, in each of its runs."""
    with StoreWriter(folder, ["dowse", *titles]) as store:
        for number, title in enumerate(titles):
            spec = replace(CELL, options={"number": number, "word": title, "limit": float("inf")})
            plan = PlannedRun(spec=spec, title=title, count=None, target_name=title or None)
            store.begin(plan, f"images {title}", [Entry(row.name, 1) for row in found])
            store._database.execute("UPDATE tasks SET owner = ?", (store.session,))
            ends = [replace(row, run=spec.id, position=place) for place, row in enumerate(found)]
            store.write(spec.id, [Ended(row, traced([])) for row in ends])
    return folder


@settings(max_examples=40, deadline=None)
@given(titles, st.lists(rows, max_size=4))
def test_unpacked_rows_are_the_same_and_pack_into_the_same_bytes(titles: list[str], found: list[Row]) -> None:
    with TemporaryDirectory() as place:
        store, file = written(Path(place, "store"), titles, found), Path(place, "rows.jsonl")
        pack(store, file)
        unpack([file], Path(place, "new"))
        for other in (Path(place, "new"), file):
            with Store(store) as one, Store(other) as two:
                assert [plain_row(row) for row in two.rows()] == [plain_row(row) for row in one.rows()]
                assert [replace(run, source="") for run in two.runs()] == [
                    replace(run, source="") for run in one.runs()
                ]
            again = Path(place, f"{other.name}.again")
            pack(other, again)
            assert again.read_bytes() == file.read_bytes()


@settings(max_examples=40, deadline=None)
@given(st.lists(rows, min_size=2, max_size=4), st.data())
def test_parts_packed_into_one_file_are_the_whole(found: list[Row], data: st.DataObject) -> None:
    """In whatever order: a file does not depend on who came first, but for what only the whole knows."""
    with TemporaryDirectory() as place:
        with Store(written(Path(place, "store"), ["one"], found)) as store:
            everything = packed_of(store)
        (run,) = everything.runs.values()
        chosen = data.draw(st.sets(st.sampled_from(sorted(run.rows))))
        parts = [
            replace(everything, runs={run.id: replace(run, rows=of, wrote={place: run.wrote[place] for place in of})})
            for of in (
                {place: row for place, row in run.rows.items() if place in chosen},
                {place: row for place, row in run.rows.items() if place not in chosen},
            )
        ]
        assert parts[0].joined(parts[1]).same(everything)
        assert parts[1].joined(parts[0]).same(everything)
        assert everything.joined(parts[0]).same(everything)


@given(rows)
def test_a_row_agrees_with_itself(row: Row) -> None:
    row = plain_row(replace(row, **dict.fromkeys(("confidence", "confidence_before", "l2", "linf", "loss"))))
    assert joined_rows(row, row) is row
