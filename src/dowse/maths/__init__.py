"""Closed forms and geometry: no input or output, no model."""
