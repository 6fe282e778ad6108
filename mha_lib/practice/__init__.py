"""What makes a reader think before reading on: so far, predictions."""
