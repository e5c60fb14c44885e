"""Pure decisions on where a tuple goes: owners, thresholds and slots."""
