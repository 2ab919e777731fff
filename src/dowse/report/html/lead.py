"""Which columns the page's first sentences are about."""

from collections import Counter

from dowse.report.data.model import Group, Report, Table

MOST = 4  # sentences


def leading_columns(report: Report) -> list[tuple[Table, Group]]:
    """Up to MOST columns in their own order: of many, each time one whose norm and target were named least."""
    columns, chosen = report.columns, list[int]()
    named: Counter[str] = Counter()
    while len(chosen) < min(MOST, len(columns)):
        left = [place for place in range(len(columns)) if place not in chosen]
        words = {place: (columns[place][0].norm, columns[place][1].target) for place in left}
        place = min(left, key=lambda one: sum(named[word] for word in words[one]))
        chosen.append(place)
        named.update(words[place])
    return [columns[place] for place in sorted(chosen)]
