"""A command line enters; results leave on stdout, progress and errors on stderr. One file per command."""
