"""Numbers enter at their addresses, numbers leave: the parts of a decode step in machine code, by Numba."""
