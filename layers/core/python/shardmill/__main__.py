"""`python -m shardmill` is the command `shardmill`."""

from shardmill.cli.main import main

if __name__ == "__main__":
    main()
