"""Real applications under `gapwatch instrument`: a model server with faults, and the programs that drive them."""
