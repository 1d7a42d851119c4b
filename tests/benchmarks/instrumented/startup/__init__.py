"""Folder that is put on the path of a patched program."""
