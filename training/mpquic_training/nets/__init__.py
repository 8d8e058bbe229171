"""The policies' networks."""
