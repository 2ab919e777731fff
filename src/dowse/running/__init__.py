"""Experiments become rows: claiming tasks, attacking them wherever the engine likes, committing what happens."""
