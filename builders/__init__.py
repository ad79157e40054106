"""Commands that make the tables and the generated pages. Run from a checkout: `python -m builders --help`."""
