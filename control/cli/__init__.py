"""The command line `facestream`."""
