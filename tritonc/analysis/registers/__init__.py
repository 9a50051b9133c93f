"""How many registers a thread needs: what is live where, and what it takes."""
