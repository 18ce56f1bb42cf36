"""Objects for tests, made through the services, as a door makes them."""
