"""The embedded engine and the process that owns it. Plain data in and out; nothing ranks here."""
