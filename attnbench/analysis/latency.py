"""How time grows with the number of tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

# Under 256 tokens the constant cost of calling an operator hides how its work grows.
FROM_TOKENS = 256


def latency_exponents(latency: pd.DataFrame, *, from_tokens: int = FROM_TOKENS) -> pd.Series:
    """The power of N with which the time of each attention grows: 1 for linear attention, 2 for softmax.

    latency: columns `key`, `n_tokens` and `latency_ms`, such as the table `latency`. Returns: by key, the slope of
    log latency over log N, by least squares over all sizes of at least `from_tokens`.
    Raises: ValueError where an attention has fewer than two of them.
    """
    import pandas as pd

    large = latency[latency["n_tokens"] >= from_tokens]
    n_sizes = large.groupby("key")["n_tokens"].nunique().reindex(latency["key"].unique(), fill_value=0)
    too_few = n_sizes[n_sizes < 2]
    if len(too_few):
        raise ValueError(
            f"{len(too_few)} attentions have fewer than two sizes of at least {from_tokens} tokens, such as "
            f"{too_few.index[0]}; lower from_tokens, or measure more with `python -m builders latency`."
        )
    x, y = np.log(large["n_tokens"].astype(float)), np.log(large["latency_ms"])
    x, y = (z - z.groupby(large["key"]).transform("mean") for z in (x, y))
    slopes = (x * y).groupby(large["key"]).sum() / (x * x).groupby(large["key"]).sum()
    return pd.Series(slopes, name="latency_exponent")
