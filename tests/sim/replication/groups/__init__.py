"""Consumer groups of both protocols in the simulation of replication."""
