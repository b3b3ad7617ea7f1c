"""One module per API, opened by its promise; `ls` lists the APIs that are served.

Handlers translate between messages and the modules that decide. They do not import each other.
"""
