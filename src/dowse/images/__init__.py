"""Image sets: files, arrays and the demo's photographs as pixels, labels and names."""
