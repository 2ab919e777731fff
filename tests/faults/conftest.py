"""One server of victims for all tests of kills: it imports torch once."""

from collections.abc import Iterator

import pytest

from tests.victims import Victims, victims


@pytest.fixture(scope="session")
def server() -> Iterator[Victims]:
    with victims() as running:
        yield running
