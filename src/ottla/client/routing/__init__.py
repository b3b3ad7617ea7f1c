"""Routes requests to leaders, coordinators and the controller, and retries when they move."""
