"""Values, errors and notation that every room shares. Imports nothing of ours from outside."""
