"""`ottla up`, `ottla down` and `ottla serve`."""
