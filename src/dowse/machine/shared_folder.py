"""The folder of weights and image sets that come in no package: $DOWSE_SHARED, by default ../shared."""

import os
from pathlib import Path

VARIABLE, DEFAULT = "DOWSE_SHARED", "../shared"


def shared_folder() -> Path:
    """The folder, whether it is there or not; it holds models/weights and data."""
    return Path(os.environ.get(VARIABLE, DEFAULT))
