"""One log against a plain list of batches, on the simulated disk, seed by seed."""
