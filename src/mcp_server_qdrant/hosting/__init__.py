"""Finding, starting and talking to the service over a private socket. No tools, no engine.

`pipe` is the process that a client starts over stdio. It finds or starts the service of its store
(`reach`, `rendezvous`) and forwards the client's lines (`relay`). These modules import only the
standard library. `listen` is the service's side of the socket; the service is `app/service.py`.
"""
