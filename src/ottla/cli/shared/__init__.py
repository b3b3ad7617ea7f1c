"""Code shared by several command groups: options, output, errors, access to a cluster."""
