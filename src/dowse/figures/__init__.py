"""The paper's figures: each computes its numbers, keeps them as JSON, and draws itself in the paper's layout."""
