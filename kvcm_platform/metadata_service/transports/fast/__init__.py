"""Unary gRPC over a small HTTP/2 endpoint of our own: MetaService with the least work a call.

`connection` and what it is made of (`frames`, `request_head`, `intake`, `outflow`, `control`) are pure: bytes
in, events and bytes out. `server` and `peer` give them sockets, TLS, time and handlers; `routes` says what is
served, and `conversations` holds the two streaming methods there are.
"""
