"""Folder that is put on the path of the program, so that Python runs its `sitecustomize`."""
