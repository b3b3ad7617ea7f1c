"""Finding leaders, coordinators and the controller, and retrying when they move."""
