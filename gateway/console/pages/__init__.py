"""The pages, a module for each: what it shows, where that comes from, and its routes. `tests/console` tests
them."""
