"""What is to be run: a TOML file, the grid it expands to, and the spec of a run with its id."""
