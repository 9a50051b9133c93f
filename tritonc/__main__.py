"""`python -m tritonc` is the command `tritonc`."""

from tritonc.cli.main import main

if __name__ == "__main__":
    main()
