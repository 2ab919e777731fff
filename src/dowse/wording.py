"""Numbers and specs as a person is shown them; every room that speaks to people uses these."""

import re


def duration(seconds: float) -> str:
    """Seconds as a person says them: 42 s, 3 min, 2.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def without_password(text: str) -> str:
    """A text as it may be kept and shown, without what may be a password in a URL."""
    return re.sub(r"//[^/@]*@", "//***@", text)
