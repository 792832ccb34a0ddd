"""Spark jobs as the operator sees them: what is asked, what is answered, and what runs them."""
