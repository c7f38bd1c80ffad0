"""Ranking steps: hits in, hits out. Pure: no engine, clock or settings; no step calls another."""
