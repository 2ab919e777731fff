"""The file that `dowse methods` reads says what the methods' classes say."""

from dowse.attacks.registry import METHODS
from dowse.cli.catalogue import FILE, about_class, as_json, catalogue


def test_the_file_says_what_the_classes_say() -> None:
    assert FILE.read_text(encoding="utf-8") == as_json(), "make it anew: python -m dowse.cli.catalogue"
    assert catalogue() == {name: about_class(method) for name, method in METHODS.items()}
