"""`ottla cluster …` and `ottla broker …`: the brokers of a cluster and what they have."""
