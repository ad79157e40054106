"""The global random generators, which timm draws from: seeded by what matters, and put back afterwards."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b

import numpy as np
import torch


@contextmanager
def kept_generators(gpus: Sequence[torch.device] = ()) -> Iterator[None]:
    """Puts the states of Python's, numpy's and torch's global generators back at the end; of torch's on `gpus` too."""
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=gpus):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)


@contextmanager
def drawing_from(*numbers: object) -> Iterator[None]:
    """Inside, the global generators on the CPU draw what `numbers` decide; afterwards they draw as before."""
    with kept_generators():
        number = number_of(*numbers)
        random.seed(number)
        np.random.seed(number)
        torch.default_generator.manual_seed(number)
        yield


def number_of(*numbers: object) -> int:
    """32 bits that follow from the given values."""
    return int.from_bytes(blake2b("/".join(map(str, numbers)).encode(), digest_size=4).digest(), "big")
