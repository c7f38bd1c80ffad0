"""A process of ours that servers share: how it is found, started and spoken to.

`service` says what a kind of host is, `wire` how bytes travel; `connect` and `link` are the
client's side, `host` the other. Who uses it: `qdrant/edge/host.py` and `app/model_host.py`.
"""
