"""A store's images as arrays, for a page: without torch, which takes longer to import than the rest of a page."""

from dowse.report.html.thumbnails import Pixels
from dowse.store import Row, Store
from dowse.store.image_files import read_image
from dowse.store.places import original_of


def original(store: Store, row: Row) -> Pixels:
    """The original of a row, (C, H, W) in [0, 1]; OSError if it is not there or damaged."""
    return read_image(original_of(store.folder, row.checksum))


def adversarial(store: Store, row: Row) -> Pixels:
    """The adversarial image of a row that has one, (C, H, W) in [0, 1]; OSError if it is not there or damaged."""
    if row.file is None:
        raise OSError(f"no image was kept of {row.name}")
    return read_image(store.folder / row.file)
