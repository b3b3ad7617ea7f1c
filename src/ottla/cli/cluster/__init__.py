"""`ottla cluster …`, `ottla broker …`, and the processes of a cluster on this machine."""
