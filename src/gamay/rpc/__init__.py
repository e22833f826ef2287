"""Calls between broker and server over persistent connections.

`gamay.rpc.frames` is the format, `gamay.rpc.handshake` what both sides prove, `gamay.rpc.peer` one end of a connection,
`gamay.rpc.client` calls and `gamay.rpc.server` answers. What the buffers of a call mean is the business of those who call.
"""
