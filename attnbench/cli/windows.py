"""How a window of parameters is written on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attnbench.space.subnet_named import ParamWindow

WINDOW_HELP = "bounds of parameters: MIN-MAX, a published window's name such as tiny, or none"


def window_of(given: str) -> ParamWindow | None:
    """A window by its name or as MIN-MAX; None for "none". Raises: ValueError for anything else."""
    from attnbench.space.subnet_named import PARAM_WINDOWS, ParamWindow

    if given == "none":
        return None
    if given in PARAM_WINDOWS:
        return PARAM_WINDOWS[given]
    least, _, most = given.partition("-")
    if least.isdigit() and most.isdigit() and int(least) <= int(most):
        return ParamWindow(int(least), int(most))
    raise ValueError(
        f"{given!r} is no window of parameters; write MIN-MAX such as 4000000-6200000, none, or one of "
        f"{', '.join(PARAM_WINDOWS)}."
    )
