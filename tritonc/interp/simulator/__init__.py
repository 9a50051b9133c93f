"""Machine operations, simulated: a kernel in the backend, run thread by thread where it matters."""
