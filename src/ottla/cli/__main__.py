"""`python -m ottla.cli`: the command line where its script is not on the path."""

from ottla.cli.main import main

main()
