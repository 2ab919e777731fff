"""Speed and quality, measured; `python -m benchmarks.run` prints every figure against its goal."""
