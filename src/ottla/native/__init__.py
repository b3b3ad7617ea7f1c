"""What loops over records: the same source, compiled where there is a C compiler, interpreted
where there is none.

Bytes in; offsets, columns or bytes out. Nothing here does I/O or imports the rest of Ottla.
"""
