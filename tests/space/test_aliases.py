"""Published keys stay alive."""

from attnbench.space import aliases
from attnbench.space.aliases import ALIASES, current_key
from attnbench.space.parse import parse


def test_a_changed_key_is_found_and_others_are_their_own(monkeypatch):
    key = parse("q @ (k.T @ v)").key
    monkeypatch.setattr(aliases, "ALIASES", {"ag1-" + "0" * 32: key})
    assert current_key("ag1-" + "0" * 32) == key
    assert current_key(key) == key


def test_aliases_lead_to_current_keys():
    assert not set(ALIASES) & set(ALIASES.values())
