"""White-box networks that answer `prior_at`: one, or several together, each at its own resolution."""
