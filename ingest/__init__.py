"""The ingest service: scan, plan, decode, pack."""
