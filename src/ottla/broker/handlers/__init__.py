"""One module an API, opened by its promise; `ls` is the table of what is served.

Handlers translate: what is decided lies below them. They do not import each other.
"""
