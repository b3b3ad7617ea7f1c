"""One module per API, opened by its promise; `ls` lists the served APIs.

Handlers translate between messages and the modules that decide. They do not import each other.
"""
