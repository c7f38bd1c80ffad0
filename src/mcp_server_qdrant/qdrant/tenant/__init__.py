"""Clients confined to one tenant's points; whatever they lack cannot be called."""
