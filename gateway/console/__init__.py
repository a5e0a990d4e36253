"""The web console, and the REST API of what its pages show, below `/console` and `/api/v1` of the operators'
listener: pages made on the server, each over the same function as its route of the API."""
