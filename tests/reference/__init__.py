"""Reference implementation of the contract, slow and row by row; tests compare the compiled plan with it."""
