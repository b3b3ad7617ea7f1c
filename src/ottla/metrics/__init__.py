"""What a node counts (`meters`), and how it is shown to Prometheus (`node`, `families`)."""
