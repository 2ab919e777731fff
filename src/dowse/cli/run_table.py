"""The table at the end of runs, and the console that shows it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from dowse.running.run_under_way import Finished


def wide_console() -> "Console":
    """The terminal; elsewhere, where lines may be as long as they like, a wide one."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=max(console.width, 180))


def show_table(finished: "Sequence[Finished]") -> None:
    """Print a row a run, and what was left out."""
    from rich.markup import escape
    from rich.table import Table

    from dowse.wording import number, percent, plural

    table = Table(
        "run", "method", "target", "norm", "n", "ASR", "AVG. Q", "median Q", "mean Q",
        caption="AVG. Q over successes; median with failures infinite; mean with failures at the budget",
        caption_justify="left",
    )  # fmt: skip
    for one in finished:
        s, spec = one.summary, one.plan.spec
        table.add_row(
            spec.id,
            escape(one.plan.title),
            escape(one.plan.target),
            spec.norm,
            str(s.n),
            percent(s.asr),
            number(s.mean_queries, ".1f"),
            number(s.median_queries, "g"),
            number(s.mean_queries_budget, ".1f"),
        )
    console = wide_console()
    console.print(table)
    skipped = {name: reason for one in finished for name, reason in one.skipped.items()}
    if skipped:
        console.print(f"could not be read and left out: {plural(len(skipped), 'image')}", highlight=False)
        for name, reason in skipped.items():
            console.print(f"  {name}: {reason}", markup=False, highlight=False)
    for one in finished:
        if one.summary.detected:
            console.print(f"{one.plan.spec.id}: {one.summary.detection}", highlight=False)
    wrong = max((one.summary.already_wrong for one in finished), default=0)
    if wrong:
        most = "up to " if len(finished) > 1 else ""
        said = f"misclassified unchanged and left out of n: {most}{plural(wrong, 'image')}"
        console.print(said + (" a run" if most else ""), highlight=False)
