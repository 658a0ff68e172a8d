"""The texts that commands print: one module for each kind of result."""
