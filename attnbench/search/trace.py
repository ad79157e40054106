"""What a search leaves behind: every evaluation, the choice, its regret and its test accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from attnbench.search.measurements import Reference, Revealed


class Evaluation(NamedTuple):
    """One query and the state of the search after it.

    spent: budget used so far, in the trace's unit. best_key, best_val_top1_percent: the first among the highest so far,
    by the shown seed. regret_percent: of that best, see `Trace`; known once the search is finished.
    """

    key: str
    val_top1_percent: float
    spent: float
    is_repeat: bool
    source: str
    best_key: str
    best_val_top1_percent: float
    regret_percent: float | None = None


@dataclass(frozen=True)
class Trace:
    """A finished search.

    regret_percent: percentage points between the reference's best mean and the chosen architecture's mean over the
    same seeds; None where the choice has no row. test_top1_percent: mean over the choice's n_test stored runs, read
    once, here; None where there is none or one of them has no test value, as no survivors are averaged. budget and
    spent are in `unit`.
    """

    searcher: str
    search_seed: int | None
    shown_seed: int
    budget: float
    unit: str
    repeat_price: float
    spent: float
    stop_reason: str
    reference: Reference | None
    evaluations: tuple[Evaluation, ...]
    best_key: str | None
    best_val_top1_percent: float | None
    regret_percent: float | None
    test_top1_percent: float | None
    n_test: int

    @classmethod
    def of(
        cls,
        evaluations: Sequence[Evaluation],
        hidden: Revealed,
        *,
        searcher: str,
        search_seed: int | None,
        shown_seed: int,
        budget: float,
        unit: str,
        repeat_price: float,
        stop_reason: str,
    ) -> Trace:
        """The evaluations completed by what was hidden while they were made."""
        regret: dict[str, float] = {}
        if hidden.reference is not None:
            best = hidden.reference.best_val_top1_percent
            regret = {e.best_key: best - hidden.mean[e.best_key] for e in evaluations if e.best_key in hidden.mean}
        completed = tuple(Evaluation(*e[:-1], regret.get(e.best_key)) for e in evaluations)
        last = completed[-1] if completed else None
        return cls(
            searcher=searcher,
            search_seed=search_seed,
            shown_seed=shown_seed,
            budget=budget,
            unit=unit,
            repeat_price=repeat_price,
            spent=last.spent if last else 0.0,
            stop_reason=stop_reason,
            reference=hidden.reference,
            evaluations=completed,
            best_key=last.best_key if last else None,
            best_val_top1_percent=last.best_val_top1_percent if last else None,
            regret_percent=last.regret_percent if last else None,
            test_top1_percent=fmean(hidden.test_top1_percent) if hidden.test_top1_percent else None,
            n_test=len(hidden.test_top1_percent),
        )

    def rows(self) -> list[dict[str, object]]:
        """One dictionary per evaluation, for a frame or JSON: who searched, then the evaluation, numbered from 1."""
        who: dict[str, object] = {"searcher": self.searcher, "search_seed": self.search_seed}
        return [who | {"evaluation": i} | e._asdict() for i, e in enumerate(self.evaluations, 1)]
