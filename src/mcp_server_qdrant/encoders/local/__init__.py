"""Models on this machine, and the process that holds them; alone imports fastembed."""
