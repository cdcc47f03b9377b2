"""`clearhead vectors …`: word vectors (N3 to N6). Options enter; tables or JSON leave on stdout, progress on stderr."""
