"""Pure decisions on how much to run: controllers, forecasters and performance models."""
