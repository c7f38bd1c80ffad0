"""Values, errors and notation shared by all packages. Imports none of them."""
