"""One broker put together: start, stop, background tasks, settings that change while it runs."""
