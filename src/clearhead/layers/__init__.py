"""The parts of a block: tensors enter and leave. Each axis of variation is one file with one table of kinds."""
