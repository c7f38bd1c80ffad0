"""A process that servers share: found, started, spoken to. Knows no models and no engine.

`host` is one side and `link` the other; `wire` says where a host listens, and what the two say to
each other. Who uses it: `qdrant/edge/host.py` and `encoders/local/serve.py`.
"""
