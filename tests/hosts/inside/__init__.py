"""What runs inside a test host, with the Python and the code that are bound into it."""
