"""What a command says where the base install lacks the libraries that it needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from attnbench.errors import AttnBenchError


@contextmanager
def needs_torch(what: str) -> Iterator[None]:
    """Around the imports of a command that runs networks. Raises: AttnBenchError, which says how to get the rest."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("attnbench"):
            raise
        raise AttnBenchError(
            f"{what} needs torch and timm, which the base install leaves out ({error}): pip install 'attnbench[nn]'"
        ) from None
