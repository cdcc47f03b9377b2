"""Examples enter; shards leave: token ids on disk, checked, mapped into memory, and read back as columns."""
