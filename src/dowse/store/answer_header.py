"""The head of a logged answer, which is read without torch: of what form it is, and what was handed over for it."""

import struct

FORMAT = 2
DIGEST_BYTES, PROJECTIONS = 8, 4
HEADER = struct.Struct(f"<BBIIIIiidf{DIGEST_BYTES}s{PROJECTIONS}d")


def check_header(block: bytes) -> None:
    """Raise ValueError for bytes that are no logged answer of this form."""
    if len(block) < HEADER.size or block[0] != FORMAT:
        raise ValueError(f"a logged answer of {len(block)} bytes that starts with {block[:1]!r} cannot be read")


def sent_for(block: bytes) -> int:
    """How many rows were handed to the target for an answer, of whose block the head is enough."""
    check_header(block)
    sent: int = HEADER.unpack_from(block)[3]
    return sent
