"""Files of the checkout that are made of what verbs and keys declare: `python -m lab.reference` writes them."""

from collections.abc import Callable

from lab.reference import keys, stub, verbs

FILES: dict[str, Callable[[], str]] = {
    "KEYS.md": keys.markdown,
    "VERBS.md": verbs.markdown,
    verbs.README: verbs.readme,
    "docs/terms.md": verbs.terms_page,
    "hwexplorer/__init__.pyi": stub.stub,
}
