"""Scenes of groups that go wrong, played to any broker: what it answers is compared with Kafka."""
