"""`python -m ottla.cli`: the command line where its script is not on the path."""

import sys

# Python puts the current directory first, where a file could pass for a module that we import.
if not sys.flags.safe_path:
    del sys.path[0]

from ottla.cli.main import main

main()
