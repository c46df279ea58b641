"""FaceFusion's own processors, run by a checkout of it in child processes. Written from a contract only."""
