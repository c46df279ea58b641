"""The swapper service: reads frame batches, runs an engine, writes patches."""
