"""The environment, read here alone and checked once. Nothing here acts on a setting."""
