"""Configuration files, good and bad, generated from fragments."""
