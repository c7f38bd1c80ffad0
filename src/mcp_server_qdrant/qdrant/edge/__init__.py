"""The embedded engine, in the process that holds its folder's lock. Plain data, no ranking."""
