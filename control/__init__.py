"""Jobs, scheduler, command line."""
