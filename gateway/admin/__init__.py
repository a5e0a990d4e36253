"""What operators and their tools ask the gateway: whether it lives, whether it is ready, and its figures."""
