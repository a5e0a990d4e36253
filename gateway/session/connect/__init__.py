"""The session service for Spark Connect: whose session, which operations, what is answered and recorded."""
