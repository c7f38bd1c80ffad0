"""A process that servers share: found, started, spoken to. Knows no models and no shards.

`service` says what a kind of host is, `rendezvous` where one listens, `wire` how bytes travel;
`client` is one side, `host` the other. Who uses it: `qdrant/edge/host.py` and `app/model_host.py`.
"""
