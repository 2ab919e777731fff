"""The report for programs: CSV, a line a run, and JSON with runs, curves, comparisons and processes."""

import csv
import io
import json
from typing import Any

from dowse.report.model import Entry, Group, Report, Table, plain

COLUMNS = (
    "norm", "eps", "budget", "targeted", "target", "surrogate", "method", "title", "run", "seed", "images", "fooled",
    "already_wrong", "unfinished", "asr", "asr_low", "asr_high", "mean_queries", "mean_queries_low",
    "mean_queries_high", "median_queries", "median_queries_low", "median_queries_high", "mean_queries_budget",
    "queries", "queries_per_second",
)  # fmt: skip


def to_csv(report: Report) -> str:
    """A line a run; an empty cell is a number that does not exist, inf a median that the budget does not reach."""
    file = io.StringIO()
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for table in report.tables:
        for group in table.groups:
            for entry in group.entries:
                values = flat(table, group, entry)
                writer.writerow({name: "" if value != value else value for name, value in values.items()})
    return file.getvalue()


def flat(table: Table, group: Group, entry: Entry) -> dict[str, Any]:
    """A run in the columns of the CSV form."""
    numbers, summary, content = entry.numbers, entry.numbers.summary, entry.run.content
    values = (
        table.norm, group.eps, table.budget, table.targeted, group.target, " ".join(content["surrogate"]),
        content["method"], entry.method, entry.run.id, content["seed"], summary.n, summary.successes,
        summary.already_wrong, entry.counted.unfinished, summary.asr, *numbers.asr_interval, summary.mean_queries,
        *numbers.mean_interval, summary.median_queries, *numbers.median_interval, summary.mean_queries_budget,
        summary.queries, numbers.rate,
    )  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))


def to_json(report: Report) -> str:
    """Tables, runs with their content, curves, paired comparisons and the manifest, but no single images.

    null is a number that does not exist, "inf" one that is infinite, as in the CSV form.
    """
    return json.dumps(as_values(report), indent=1, ensure_ascii=False) + "\n"


def as_values(report: Report) -> dict[str, Any]:
    """The report as JSON can say it."""
    return {
        "title": report.title,
        "tables": [
            {
                "norm": table.norm, "eps": table.eps, "budget": table.budget, "targeted": table.targeted,
                "groups": [_group(table, group) for group in table.groups],
            }
            for table in report.tables
        ],
        "sessions": [
            {
                "command": one.command, "versions": one.versions, "started": one.started, "ended": one.ended,
                "beat": one.beat, "queries": one.queries, "busy": one.busy,
            }
            for one in report.sessions
        ],
    }  # fmt: skip


def _group(table: Table, group: Group) -> dict[str, Any]:
    return {
        "target": group.target, "name": group.name, "images": group.source, "eps": plain(group.eps),
        "runs": [
            {
                **{name: plain(value) for name, value in flat(table, group, entry).items()},
                "content": entry.run.content, "skipped": entry.run.skipped,
                "ends": _ends(entry), "curve": [list(point) for point in entry.numbers.curve],
            }
            for entry in group.entries
        ],
        "paired": [
            {
                "first": group.entries[i].method, "second": group.entries[j].method, "n": pair.n, "wins": pair.wins,
                "losses": pair.losses, "ties": pair.ties, "mean_difference": plain(pair.mean_difference),
                "sign_p": pair.sign_p, "wilcoxon_p": pair.wilcoxon_p, "rank_sum": pair.rank_sum,
            }
            for (i, j), pair in group.pairs().items()
        ],
    }  # fmt: skip


def _ends(entry: Entry) -> dict[str, int]:
    ends = [str(row.end) for row in (*entry.counted.rows, *entry.counted.failed)]
    return {end: ends.count(end) for end in dict.fromkeys(ends)}
