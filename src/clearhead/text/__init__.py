"""Files and corpora enter as text; examples leave (`sources`), and texts become ids and ids texts (`tokenizers`)."""
