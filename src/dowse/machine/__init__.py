"""What this machine offers: installed packages, the shared folder, files written whole, a CPU that can be tuned."""
