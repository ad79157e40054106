"""Random genotypes: AttnZero's released sampler, and steps from one genotype to another."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from attnbench.errors import InvalidGraph
from attnbench.space.genotype import Genotype
from attnbench.space.upstream import BINARY_NAMES, GRAPH_TYPES, NO_OP, SIX_TYPES, UNARY_NAMES, slot_count


@dataclass(frozen=True, slots=True)
class SamplerSettings:
    """A distribution over genotypes; the defaults are those of AttnZero's released sampler, over its six types.

    Type, slot length and binary are uniform. A slot's operators are drawn independently, no-op with weight
    `no_op_weight` and every other with `other_weight`.
    Source: AttnZero's travel_search_space.py.
    """

    graph_types: tuple[str, ...] = SIX_TYPES
    slot_lengths: tuple[int, ...] = (1, 2, 3)
    no_op_weight: float = 0.8
    other_weight: float = 0.05

    @property
    def unary_probabilities(self) -> tuple[float, ...]:
        """Probability of each unary operator at one position of a slot."""
        weights = [self.other_weight] * len(UNARY_NAMES)
        weights[NO_OP] = self.no_op_weight
        return tuple(weight / sum(weights) for weight in weights)


RELEASED = SamplerSettings()
_UNARY = range(len(UNARY_NAMES))
_BINARY = range(len(BINARY_NAMES))


def draw_genotype(rng: random.Random, settings: SamplerSettings = RELEASED) -> Genotype:
    """One raw draw; some 98 of 100 are no graph (`typed.TypedSampler` draws only those that are)."""
    graph_type = rng.choice(settings.graph_types)
    weights = settings.unary_probabilities
    slots = tuple(
        tuple(rng.choices(_UNARY, weights, k=rng.choice(settings.slot_lengths))) for _ in range(slot_count(graph_type))
    )
    return Genotype(graph_type, slots, tuple(rng.choices(_BINARY, k=len(GRAPH_TYPES[graph_type]))))


def key_of(genotype: Genotype) -> str | None:
    """The key of a genotype's function; None where it is no graph."""
    try:
        return genotype.to_graph().key
    except InvalidGraph:
        return None


def neighbours(genotype: Genotype, settings: SamplerSettings = RELEASED) -> tuple[Genotype, ...]:
    """Graphs one step away: an operator of a slot replaced, added or removed, a binary or the type replaced.

    Returns: one genotype per key, never this genotype's own function; slots stay within the settings' lengths.
    Raises: InvalidGraph when the genotype itself is no graph.
    """
    taken = {genotype.to_graph().key}
    found = []
    for near in _one_step(genotype, settings):
        key = key_of(near)
        if key is not None and key not in taken:
            taken.add(key)
            found.append(near)
    return tuple(found)


def mutate(genotype: Genotype, rng: random.Random, settings: SamplerSettings = RELEASED) -> Genotype:
    """A random step to another function: steps are tried in random order until one is a graph.

    Raises: InvalidGraph when the genotype is no graph, or no step leads to one.
    """
    own = genotype.to_graph().key
    steps = list(_one_step(genotype, settings))
    rng.shuffle(steps)
    for near in steps:
        if key_of(near) not in (None, own):
            return near
    raise InvalidGraph(f"no single step from {genotype.to_json()} leads to another graph; draw a new genotype instead")


def crossover(a: Genotype, b: Genotype, rng: random.Random, tries: int = 64) -> Genotype:
    """A random mixture of the parents' slots and binaries that is a graph and neither parent's function.

    Parents are of one graph type. Where `tries` mixtures give nothing new, a mutant of one parent is returned.
    Raises: InvalidGraph (a parent that is no graph, parents of two types).
    """
    if a.graph_type != b.graph_type:
        raise InvalidGraph(
            f"crossover mixes genotypes of one graph type, got {a.graph_type} and {b.graph_type}; choose parents of "
            "one type, or mutate"
        )
    taken = {None, a.to_graph().key, b.to_graph().key}
    for _ in range(tries):
        child = Genotype(
            a.graph_type,
            tuple(rng.choice(pair) for pair in zip(a.unary_ops, b.unary_ops, strict=True)),
            tuple(rng.choice(pair) for pair in zip(a.binary_ops, b.binary_ops, strict=True)),
        )
        if key_of(child) not in taken:
            return child
    return mutate(rng.choice((a, b)), rng)


def _one_step(genotype: Genotype, settings: SamplerSettings) -> Iterator[Genotype]:
    slots = genotype.unary_ops
    for i, slot in enumerate(slots):
        for changed in dict.fromkeys(_changed_slots(slot, settings)):
            yield replace(genotype, unary_ops=(*slots[:i], changed, *slots[i + 1 :]))
    binaries = genotype.binary_ops
    for i, old in enumerate(binaries):
        for new in _BINARY:
            if new != old:
                yield replace(genotype, binary_ops=(*binaries[:i], new, *binaries[i + 1 :]))
    for graph_type in settings.graph_types:
        if graph_type != genotype.graph_type and slot_count(graph_type) == len(slots):
            yield replace(genotype, graph_type=graph_type)


def _changed_slots(slot: tuple[int, ...], settings: SamplerSettings) -> Iterator[tuple[int, ...]]:
    core = tuple(op for op in slot if op != NO_OP)
    longest = max(settings.slot_lengths)
    for op in _UNARY:
        if op == NO_OP:
            continue
        for i in range(len(core)):
            if op != core[i]:
                yield (*core[:i], op, *core[i + 1 :])
        if len(core) < longest:
            for i in range(len(core) + 1):
                yield (*core[:i], op, *core[i:])
    for i in range(len(core)):
        yield (*core[:i], *core[i + 1 :]) or (NO_OP,)
