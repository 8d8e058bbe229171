"""The policies' networks; each takes normalised states."""
