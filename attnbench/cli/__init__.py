"""The command line: a thin skin over the package. Every command takes --json; libraries load when they are used."""

from attnbench.cli.parser import main

__all__ = ["main"]
