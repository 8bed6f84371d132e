"""The commands of bps: `main` of each module gets the words behind the command's name."""
