"""Where clients connect, by HiveServer2's protocol over TCP and HTTP, Spark Connect and REST, and log in.

`thrift_binary` and `thrift_http` own sockets and frames, `thrift_service` answers calls with the session
service, `connect_server` is the gRPC server, `http_calls` that of REST. `authentication` logs clients in, by
the ways that `login_chain` has in order: `login_mechanisms` and the modules `*_logins` are these ways, and
`app/logins` makes them. Only the session room is called from here.
"""
