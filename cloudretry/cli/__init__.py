"""The command line: every command is a few lines over the rooms below."""
