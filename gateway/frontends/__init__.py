"""Where clients connect: HiveServer2's binary protocol and Spark Connect, one module per concern.

`users` keeps the user file, `authentication` checks passwords and tokens, `thrift_binary` owns sockets and
frames, `thrift_service` answers calls with the session service, `connect_server` is the gRPC server. Only the
session room is called from here.
"""
