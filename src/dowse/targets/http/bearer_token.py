"""A secret that a server asks for: read from an environment variable or a file, shown nowhere."""

import os
from pathlib import Path

from dowse.errors import InputError

HIDDEN = "***"


class Token:
    """A token that shows itself to nobody but the request it goes with.

    Args:
        value: The secret.
        source: Where it comes from, for people to read.
    """

    __slots__ = ("_value", "source")

    def __init__(self, value: str, source: str) -> None:
        self._value, self.source = value, source

    def __repr__(self) -> str:
        return f"Token({HIDDEN}, from {self.source})"

    def __reduce__(self) -> str:
        raise TypeError("a token is not written anywhere: read it again where it is needed")

    @classmethod
    def read(cls, env: str | None, file: str | os.PathLike[str] | None) -> "Token | None":
        """The token in an environment variable or a file, of which one is named at most; None if neither is."""
        if env is not None:
            value, source = os.environ.get(env, ""), f"${env}"
            if not value.strip():
                raise InputError(f"token_env={env}: that environment variable is not set, or is empty")
        elif file is not None:
            source = str(file)
            try:
                value = Path(file).expanduser().read_text()
            except (OSError, UnicodeDecodeError) as error:
                raise InputError(f"token_file={source} cannot be read: {type(error).__name__}") from None
            if not value.strip():
                raise InputError(f"token_file={source} is empty")
        else:
            return None
        value = value.strip()
        if not (value.isascii() and value.isprintable()):
            raise InputError(f"the token from {source} holds characters that no header can: is it the right one?")
        return cls(value, source)

    def header(self) -> str:
        """What the Authorization header says."""
        return f"Bearer {self._value}"

    def hide_in(self, text: str) -> str:
        """A text, such as what a server says, without the token in it."""
        return text.replace(self._value, HIDDEN)
