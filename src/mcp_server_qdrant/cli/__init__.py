"""Commands: the only room that exits and prints; no work that a server could not do."""
