"""What is declared about the encoding and the indexes of columns."""
