"""When a pane closes: slack and punctuation over streams that are out of order."""
