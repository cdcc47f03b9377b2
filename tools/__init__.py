"""What the repository needs beside the library: the table of the lecture notes and its page."""
