"""Values, errors and notation that every room shares. Imports no other room."""
