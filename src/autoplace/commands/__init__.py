"""What the command line can do, a module per command; `cli` puts them together."""
