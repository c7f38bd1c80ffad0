"""Ranking steps, one per file: pure functions of hits and plain values. None knows another."""
