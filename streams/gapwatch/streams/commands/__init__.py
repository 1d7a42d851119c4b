"""Commands of the program that watches, one file each."""
