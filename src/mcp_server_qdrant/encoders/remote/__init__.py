"""Models behind HTTP; no model is loaded here."""
