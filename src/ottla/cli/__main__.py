"""`python -m ottla.cli`: the command line without its script on the PATH."""

import sys

# Python puts the current directory first, where a file could shadow a module that we import.
if not sys.flags.safe_path:
    del sys.path[0]

from ottla.cli.main import main

main()
