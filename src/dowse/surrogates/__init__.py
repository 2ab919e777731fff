"""White-box networks that answer `prior_at`, `look` and `pull`: one, or several, each at its own resolution."""
