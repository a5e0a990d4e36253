"""Several Sparks behind one gateway: which of them a new session gets, and where an open one is."""
