"""The machine: its processor and the programs beside ours enter; settings of the libraries and threads leave."""
