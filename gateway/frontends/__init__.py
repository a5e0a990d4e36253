"""Where clients connect: HiveServer2's binary protocol, one module per concern.

`users` keeps the user file, `authentication` checks passwords, `thrift_binary` owns sockets and frames,
`thrift_service` answers calls with the session service, `thrift_opening` reads what OpenSession asks for and
`thrift_status` says errors in HiveServer2's way. Only the session room is called from here.
"""
