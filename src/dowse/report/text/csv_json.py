"""The report for programs: CSV, a line a run, and JSON with runs, curves, comparisons and processes."""

from collections import Counter
from dataclasses import asdict
from typing import Any

from dowse.machine.csv_and_json import csv_text, json_text
from dowse.report.data.model import Group, Report, Table, TableEntry

OF_A_SESSION = ("command", "versions", "started", "ended", "beat", "queries", "busy")


def to_csv(report: Report) -> str:
    """A line a run; an empty cell is a number that does not exist, inf a median that the budget does not reach."""
    rows = [flat(table, group, entry) for table, group in report.columns for entry in group.entries]
    return csv_text(list(rows[0]), rows)


def to_json(report: Report) -> str:
    """Tables, runs with their content, curves, paired comparisons and the manifest, but no single images.

    null is a number that does not exist, "inf" one that is infinite, as in the CSV form.
    """
    tables = [
        {
            "norm": table.norm, "eps": table.eps, "budget": table.budget, "targeted": table.targeted,
            "groups": [_group(table, group) for group in table.groups],
        }
        for table in report.tables
    ]  # fmt: skip
    sessions = [{word: getattr(session, word) for word in OF_A_SESSION} for session in report.sessions]
    return json_text({"title": report.title, "tables": tables, "sessions": sessions})


def flat(table: Table, group: Group, entry: TableEntry) -> dict[str, Any]:
    """A run in the columns of the CSV form."""
    numbers, summary, content = entry.numbers, entry.numbers.summary, entry.run.content
    return {
        "norm": table.norm, "eps": group.eps, "budget": table.budget, "targeted": table.targeted,
        "target": group.target, "surrogate": " ".join(content["surrogate"]), "method": content["method"],
        "title": entry.method, "run": entry.run.id, "seed": content["seed"], "images": summary.n,
        "fooled": summary.successes, "already_wrong": summary.already_wrong, "failed": summary.failed,
        "unfinished": entry.counted.unfinished,
        **_with_interval("asr", summary.asr, numbers.asr_interval),
        **_with_interval("mean_queries", summary.mean_queries, numbers.mean_interval),
        **_with_interval("median_queries", summary.median_queries, numbers.median_interval),
        "mean_queries_budget": summary.mean_queries_budget, "queries": summary.queries,
        "queries_per_second": numbers.rate, "detected": summary.detected,
        "queries_until_detected": summary.queries_until_detected, "coverage": summary.coverage,
    }  # fmt: skip


def _group(table: Table, group: Group) -> dict[str, Any]:
    return {
        "target": group.target, "name": group.name, "images": group.source, "eps": group.eps,
        "runs": [
            {
                **flat(table, group, entry), "content": entry.run.content, "skipped": entry.run.skipped,
                "own_labels": entry.run.own_labels,
                "ends": Counter(str(row.end) for row in (*entry.counted.rows, *entry.counted.failed)),
                "curve": entry.numbers.curve,
            }
            for entry in group.entries
        ],
        "paired": [
            {
                "first": group.entries[i].method, "second": group.entries[j].method, **asdict(pair), "ties": pair.ties
            }
            for (i, j), pair in group.pairs().items()
        ],
    }  # fmt: skip


def _with_interval(name: str, value: float, interval: tuple[float, float]) -> dict[str, float]:
    return {name: value, f"{name}_low": interval[0], f"{name}_high": interval[1]}
