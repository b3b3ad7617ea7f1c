"""Transactional clients of a cluster: producers, consumers, committers of offsets."""
