"""Published keys that later rewrite rules have changed.

A rule that finds two spellings of one function gives at least one of them another canonical text, hence another key.
Rows are stored by formula and keep; the keys that a release has published must go on being found. So whoever changes
a rule recomputes the released tables' keys from their formulas, adds `old: new` here for each that differs, and raises
`RULES_VERSION`. A key's prefix, `ag1-`, changes only if keys are made in another way.
"""

from __future__ import annotations

RULES_VERSION = 1
# Every value is a current key, never another old one. Empty: the rules are those of the first release.
ALIASES: dict[str, str] = {}


def current_key(key: str) -> str:
    """The key that the function of a published key has under the current rules."""
    return ALIASES.get(key, key)
