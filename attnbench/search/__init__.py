"""How to find a good architecture: ask/tell searchers that know no table, and the simulation that answers them."""
