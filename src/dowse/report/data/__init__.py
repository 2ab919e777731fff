"""The report as plain data: which runs stand together, what they amount to, and what they are called."""
