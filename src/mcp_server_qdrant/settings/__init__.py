"""Settings from the environment, read only here and validated once. Nothing acts on them here."""
