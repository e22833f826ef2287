"""Calls between broker and server over persistent connections.

`gamay.rpc.frames` is the format, `gamay.rpc.handshake` the mutual authentication, `gamay.rpc.peer` one end of a
connection, `gamay.rpc.client` calls and `gamay.rpc.server` answers. The contents of a call's buffers are up to the
caller and the handler.
"""
