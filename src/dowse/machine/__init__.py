"""What this machine offers: installed packages, the shared folder, a CPU that can be tuned."""
