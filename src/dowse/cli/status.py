"""`dowse status`: how far the runs of a store are, from any terminal, while they go or afterwards."""

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from dowse.cli.failing import failing_kindly
from dowse.cli.options import StoreFolder
from dowse.wording import OWN_LABELS


def status(
    folder: StoreFolder,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Say how far the runs of a store are, who is at work, and what was left out."""
    with failing_kindly():
        found = collect(folder)
    if as_json:
        typer.echo(json.dumps(found, indent=1))
    else:
        show(found)


def collect(folder: Path) -> dict[str, Any]:
    """The state of a store as plain values."""
    from dowse.core.outcome import End
    from dowse.store import Store

    with Store(folder) as store:
        runs, working = [], [session for session in store.sessions() if session.alive]
        for run in store.runs():
            counted = store.counted(run.id, run.budget, run.count)
            rows, stored = counted.rows, counted.stored
            wrong, fooled = sum(row.end is End.ALREADY_WRONG for row in rows), sum(row.success for row in rows)
            answers, size = store.logged(run.id)
            sent = store.sent(run.id) if counted.unfinished else sum(row.sent for row in stored)
            runs.append(
                {
                    "run": run.id, "title": run.title, "target": run.content["target"], "norm": run.content["norm"],
                    "name": run.target_name, "own_labels": run.own_labels,
                    "images": run.count, "done": len(rows), "fooled": fooled, "already_wrong": wrong,
                    "success_rate": fooled / len(counted.attacked) if counted.attacked else None,
                    "failed": len(counted.failed), "budget": run.budget,
                    "queries": sum(row.queries for row in stored), "sent": sent,
                    "saved_queries": sum(row.saved_queries for row in stored), "logged_answers": answers,
                    "logged_bytes": size, "skipped": run.skipped, **store.replays(run.id),
                }
            )  # fmt: skip
        now = time.time()
        workers = [
            {
                "session": one.id, "seconds": now - one.started, "queries": one.queries, "images": one.holds,
                "queries_per_second": one.queries / max(now - one.started, 1e-9),
                "busy": one.busy / max(now - one.started, 1e-9), "command": one.command,
            }
            for one in working
        ]  # fmt: skip
        return {"runs": runs, "working": workers}


def show(found: dict[str, Any]) -> None:
    """Print the state of a store."""
    import shlex

    from rich.markup import escape
    from rich.table import Table

    from dowse.cli.run_table import wide_console

    console = wide_console()
    table = Table("run", "method", "target", "norm", "images", "fooled", "queries of ended images", "sent", "logged")
    for run in found["runs"]:
        rate = "–" if run["success_rate"] is None else f"{run['success_rate']:.1%}"
        table.add_row(
            run["run"],
            escape(run["title"]),
            escape(run["name"] or run["target"]),
            run["norm"],
            f"{run['done']}/{run['images']}",
            rate,
            str(run["queries"]),
            str(run["sent"]),
            f"{run['logged_answers']} answers, {run['logged_bytes'] / 1e6:.1f} MB",
        )
    console.print(table)
    for run in found["runs"]:
        if run["own_labels"]:
            console.print(f"{run['run']}: {OWN_LABELS}", highlight=False)
        for name, reason in run["skipped"].items():
            console.print(f"{run['run']} left out {name}: {reason}", markup=False, highlight=False)
        if run["failed"]:
            console.print(
                f"{run['run']}: the target failed on {run['failed']} images, which the next `dowse run` tries again",
                highlight=False,
            )
        if run["restarts"] or run["inexact"]:
            console.print(
                f"{run['run']}: {run['replayed']:.0f} answers replayed, {run['inexact']:.0f} of them with rounding up "
                f"to {run['largest']:.1e}; {run['restarts']:.0f} images started anew",
                highlight=False,
            )
    for one in found["working"]:
        console.print(
            f"at work: {one['images']} images, {one['queries_per_second']:.0f} queries/s, busy {one['busy']:.0%}, "
            f"since {one['seconds']:.0f} s: {shlex.join(one['command'])}",
            markup=False,
            highlight=False,
        )
    if not found["working"]:
        console.print("nobody is at work")
