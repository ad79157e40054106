"""A search replayed on the table: the budget, the price of a query, what the searcher sees, and the trace it leaves."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Generic, Literal, NamedTuple

from attnbench.errors import AttnBenchError, NotInBenchmark
from attnbench.search.measurements import Measurements
from attnbench.search.searchers import Searcher
from attnbench.search.spaces import Space, X
from attnbench.search.trace import Evaluation, Trace

Unit = Literal["evaluations", "seconds"]
# Free repeats could go on for ever in a searcher that has converged.
MAX_REPEATS_IN_A_ROW = 1_000


class BudgetSpent(AttnBenchError):
    """The next query would cost more than what is left."""


class Answer(NamedTuple):
    """What stands in for a row that the table lacks.

    val_top1_percent: in [0, 100]; source: "predicted" or "measured"; seconds: its price on the simulated clock, needed
    for a budget in seconds only.
    """

    val_top1_percent: float
    source: str
    seconds: float | None = None


class Simulation(Generic[X]):
    """One simulated search. The searcher is asked and told from outside and never sees this object.

    budget, unit: "evaluations" (one per query of something new, whatever its source) or simulated "seconds" (steps
    that the run took × step_ms of its architecture). A query that does not fit into what is left is not made.
    repeat_price: share of the full price that a function asked for again costs; 0, the default, because a user would
    look it up in the notes of the search; 1 is what training it again would cost.
    on_miss: answers functions without a row; by default they raise NotInBenchmark.
    Raises: ValueError for a budget that is not positive, an unknown unit, a negative price, or a step not timed.
    """

    def __init__(
        self,
        space: Space[X],
        measurements: Measurements,
        *,
        budget: float,
        unit: Unit = "evaluations",
        repeat_price: float = 0.0,
        on_miss: Callable[[X], Answer] | None = None,
    ):
        if unit not in ("evaluations", "seconds"):
            raise ValueError(f'unit is {unit!r}; a budget counts "evaluations" or simulated "seconds".')
        if not budget > 0:
            raise ValueError(f"budget is {budget!r}; pass a positive number of {unit}.")
        if not repeat_price >= 0:
            raise ValueError(f"repeat_price is {repeat_price!r}; pass a share of the full price, 0 for free.")
        self.space, self.measurements = space, measurements
        self.budget, self.unit, self.repeat_price, self.on_miss = budget, unit, repeat_price, on_miss
        self.spent = 0.0
        self.is_finished = False
        self.best_key: str | None = None
        self._answers: dict[str, Answer] = {}
        self._evaluations: list[Evaluation] = []
        self._best_value = float("-inf")
        self._repeats_in_a_row = 0

    def evaluate(self, x: X) -> float:
        """Validation top-1 in percent of the shown seed, charged to the budget.

        Raises: BudgetSpent, NotInBenchmark; ValueError after the end, where a price in seconds is unknown, and for an
        answer of on_miss that is no accuracy or no price.
        """
        if self.is_finished:
            raise ValueError("this simulation is finished; make a new one for another search.")
        key = self.space.key(x)
        answer = self._answers.get(key)
        is_repeat = answer is not None
        if answer is None:
            # A miss may be measured for hours: what cannot be paid for is not started.
            if self.unit == "evaluations":
                self._check_affordable(key, 1.0)
            answer = self._look_up(x, key)
        price = self._price(key, answer) * (self.repeat_price if is_repeat else 1)
        self._check_affordable(key, price)
        self._answers[key] = answer
        self.spent += price
        self._repeats_in_a_row = self._repeats_in_a_row + 1 if is_repeat else 0
        if self.best_key is None or answer.val_top1_percent > self._best_value:
            self.best_key, self._best_value = key, answer.val_top1_percent
        self._evaluations.append(
            Evaluation(
                key, answer.val_top1_percent, self.spent, is_repeat, answer.source, self.best_key, self._best_value
            )
        )
        return answer.val_top1_percent

    def run(self, searcher: Searcher[X], *, name: str = "searcher", search_seed: int | None = None) -> Trace:
        """Ask and tell until the budget is spent or the searcher has nothing left to ask; then finish."""
        ask, tell, evaluate = searcher.ask, searcher.tell, self.evaluate
        while True:
            x = ask()
            if x is None:
                return self.finish("nothing left to ask", name=name, search_seed=search_seed)
            try:
                value = evaluate(x)
            except BudgetSpent:
                return self.finish("budget spent", name=name, search_seed=search_seed)
            tell(x, value)
            if self._repeats_in_a_row >= MAX_REPEATS_IN_A_ROW:
                reason = f"{MAX_REPEATS_IN_A_ROW} repeated queries in a row"
                return self.finish(reason, name=name, search_seed=search_seed)

    def finish(self, reason: str = "finished", *, name: str = "searcher", search_seed: int | None = None) -> Trace:
        """End the search for good; only now are regret and the chosen architecture's test accuracy known."""
        self.is_finished = True
        hidden = self.measurements.reveal(self)
        return Trace.of(
            self._evaluations,
            hidden,
            searcher=name,
            search_seed=search_seed,
            shown_seed=self.measurements.shown_seed,
            budget=self.budget,
            unit=self.unit,
            repeat_price=self.repeat_price,
            stop_reason=reason,
        )

    def _check_affordable(self, key: str, price: float) -> None:
        # Sums of prices round; the last query that fits must not fail on that.
        if self.spent + price > self.budget * (1 + 1e-12):
            raise BudgetSpent(
                f"{key} costs {price:g} {self.unit}, and {self.budget - self.spent:g} of {self.budget:g} are left. "
                "finish() the simulation."
            )

    def _look_up(self, x: X, key: str) -> Answer:
        measurements = self.measurements
        if key in measurements.value:
            return Answer(measurements.value[key], "table", measurements.seconds[key])
        if self.on_miss is not None:
            return _checked(self.on_miss(x), key)
        raise NotInBenchmark(
            f"{key} ({x!r}) has no run with seed {measurements.shown_seed}; the table holds {len(measurements)} "
            "functions. Search a space restricted to these, or pass on_miss to predict or measure it."
        )

    def _price(self, key: str, answer: Answer) -> float:
        if self.unit == "evaluations":
            return 1.0
        if answer.seconds is None:
            raise ValueError(
                f"{key} ({answer.source}) has no price in seconds: its step was not timed. "
                "Count the budget in evaluations, or give its seconds."
            )
        return answer.seconds


def _checked(answer: Answer, key: str) -> Answer:
    """The answer, unless it would silently decide the search: NaN is never beaten, a negative price adds budget."""
    if not 0 <= answer.val_top1_percent <= 100:
        raise ValueError(
            f"on_miss answered {key} with val_top1_percent = {answer.val_top1_percent!r}; give a number in [0, 100], "
            "chance for a run that diverged."
        )
    if answer.seconds is not None and not 0 <= answer.seconds < inf:
        raise ValueError(
            f"on_miss answered {key} with seconds = {answer.seconds!r}; give a number from 0, None where it is unknown."
        )
    return answer
