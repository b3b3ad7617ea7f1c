"""What several commands share: options, output, errors, connecting to a cluster."""
