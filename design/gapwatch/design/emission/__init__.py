"""Emits the spans that a design asks for, by a patch of the program or by events of the interpreter."""
