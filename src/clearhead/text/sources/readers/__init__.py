"""One file a format: a `Scan` of a file enters, its examples leave; `formats.py` above is the table of them."""
