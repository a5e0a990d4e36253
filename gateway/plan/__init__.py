"""Plans of Spark Connect: what they read, write and call, and how their relations are guarded."""
