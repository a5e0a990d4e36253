"""Sessions and operations, and the service that ties a statement's way together. No sockets here."""
