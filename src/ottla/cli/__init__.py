"""The command line. Each command imports its dependencies when it runs."""
