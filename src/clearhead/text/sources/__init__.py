"""What a recipe names as data enters, such as files, folders or `builtin:NAME`; examples leave (`read.py`)."""
