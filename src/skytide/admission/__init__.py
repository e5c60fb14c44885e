"""Pure decisions on what to let in: many small streams through one source."""
