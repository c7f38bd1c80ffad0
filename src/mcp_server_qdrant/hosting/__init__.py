"""A process that servers share: found, started, spoken to. Knows no models and no shards.

`service` says what a kind of host is, `wire` how bytes travel; `dial`, `connect` and `link` are the
client's side, `host` the other. Who uses it: `qdrant/edge/host.py` and `app/model_host.py`.
"""
