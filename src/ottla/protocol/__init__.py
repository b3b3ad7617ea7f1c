"""Kafka's wire format: primitives, messages, framing, record batches. Bytes and values, no I/O."""
