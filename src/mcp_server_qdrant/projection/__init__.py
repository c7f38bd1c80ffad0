"""Maps of collections: axes, places, panels and their encodings; knows no tool and no page."""
