"""Loops over records and parsers of ordinary requests. The same source runs compiled if there is a
C compiler, and interpreted otherwise.

Input is bytes; output is offsets, columns or bytes. These modules do no I/O and do not import the
rest of Ottla.
"""
