"""Client connections: listeners, received requests, sent responses, sessions."""
