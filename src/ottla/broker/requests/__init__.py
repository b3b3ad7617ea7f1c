"""From a decoded request to its reply: dispatch, and what handlers share."""
