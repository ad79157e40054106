"""`python -m attnbench.cli`, where the script `attnbench` is not on the path."""

import sys

from attnbench.cli import main

sys.exit(main())
