"""What the packages promise, a file for each part."""
