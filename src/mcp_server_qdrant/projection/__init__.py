"""Maps of collections: axes, positions, panels and their encodings. No tools, no page."""
