"""What AdminService does, by subject. Each call is a function from a `Call` to its answer, blocking."""
