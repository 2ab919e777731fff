"""What did not work: why images were not fooled, and which could not be read."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from dowse.core.result import End
from dowse.report.data.model import Entry, Report
from dowse.report.data.names import norm_sign

SKIPPED = "The image could not be read and was left out."


@dataclass(frozen=True)
class Failed:
    """Images of one run that failed for one reason: whose they are, and each one's name and what went wrong."""

    method: str
    where: str
    images: list[tuple[str, str | None]]

    @property
    def number(self) -> int:
        """How many images."""
        return len(self.images)


def failures(report: Report) -> dict[str, list[Failed]]:
    """Why images were not fooled or were left out: runs and their images by the reason; empty if all went well."""
    reasons: dict[str, list[Failed]] = defaultdict(list)
    for table, group in report.columns:
        for entry in group.entries:
            for sentence, images in _failed(entry):
                reasons[sentence].append(Failed(entry.method, f"{group.name}, {norm_sign(table.norm)}", images))
    return dict(reasons)


def _failed(entry: Entry) -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    for end in End:
        images = [(row.name, row.cause) for row in (*entry.counted.rows, *entry.counted.failed) if row.end is end]
        if images and end is not End.ADVERSARIAL:
            yield end.sentence, images
    if entry.run.skipped:
        yield SKIPPED, list(entry.run.skipped.items())
