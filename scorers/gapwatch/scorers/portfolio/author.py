"""Tells the name of a person from a text that only fills the place of one."""

from __future__ import annotations

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.printable import shown

#: Stands for the author in a fact that Gapwatch proposes.
PLACEHOLDER = "WHO SAYS SO"

#: Placeholders that the JSON Schema of a portfolio refuses, so that an editor marks them; the loader refuses more.
MARKED_PLACEHOLDERS = (PLACEHOLDER, "YOU", "TODO", "NAME", "nobody", "?")

#: Texts that name no person, without signs around them, in lower case. A person whose only name stands here, such as
#: the family name You, has to write a second one.
_NOBODY = {
    *("who says so", "you", "your name", "name", "me", "myself", "i", "us", "we", "somebody", "someone", "person"),
    *("user", "author", "owner", "team", "nobody", "no one", "noone", "no-one", "none", "null", "nil", "unknown"),
    *("anonymous", "anyone", "anybody", "everybody", "everyone", "todo", "to do", "fixme", "tbd", "tba", "tbc"),
    *("n/a", "na", "n.a", "nn", "n.n", "xx", "xxx", "foo", "bar", "placeholder", "changeme", "change me"),
}
_SIGNS = "<>[](){}\"'`*_?!.:;,-~#@$% \t"


def names_person(text: str) -> bool:
    """Return whether a text can be the name of a person; False for `YOU`, `TODO`, `nobody`, `?` and their like."""
    bare = " ".join(text.strip(_SIGNS).split()).casefold()
    return any(character.isalnum() for character in bare) and bare not in _NOBODY


def check_author(by: object, of: str) -> str:
    """Return the author of a record; refuse what names no person.

    Args:
        by: Name as it was given.
        of: The record, such as `decision`.

    Raises:
        UsageError: `by` is no text, empty, or stands for anybody.
    """
    if not isinstance(by, str) or not names_person(by):
        why = f": {shown(by, 40)!r} can be anybody" if isinstance(by, str) and by.strip() else ""
        raise UsageError(f"the {of} has no author; give your name with --by, such as --by 'Ada Lovelace'{why}")
    return by
