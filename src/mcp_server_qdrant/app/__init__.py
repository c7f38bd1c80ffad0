"""Composition: from the settings to running servers and hosts. No logic that a part could hold."""
