"""Values as other programs read them: CSV and JSON."""

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any


def csv_text(columns: Sequence[str], rows: Iterable[dict[str, Any]]) -> str:
    """Rows under a heading, what is a list or a mapping as JSON."""
    file = io.StringIO()
    writer = csv.DictWriter(file, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {word: json.dumps(value) if isinstance(value, dict | list) else value for word, value in plain(row).items()}
        for row in rows
    )
    return file.getvalue()


def json_text(value: Any) -> str:
    """A value as JSON, a line a number or word."""
    return json.dumps(plain(value), indent=1, ensure_ascii=False) + "\n"


def plain(value: Any) -> Any:
    """A value with numbers as JSON can say them: None where there is none, "inf" where it is infinite."""
    if isinstance(value, dict):
        return {word: plain(one) for word, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if math.isnan(value) else str(value)
