"""A small question-answering service: the pipeline that the tests design a portfolio for, run and break."""
