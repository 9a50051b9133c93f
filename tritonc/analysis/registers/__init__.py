"""How many registers a thread needs.

`liveness` (what is live where), `weights` (what a value takes), `pressure` (where the most are
live)."""
