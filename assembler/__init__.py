"""The assembler service: join, paste, encode, mux."""
