"""The HTTP target. ANOTHER ENGINEER IS WRITING THIS FILE AND ALL OF HTTP (v2.py, retry.py, rate.py, tests/server) NOW: leave it."""
