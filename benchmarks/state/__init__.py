"""How the state of continuous queries scales: with the age of windows, their number of panes, keys and groups."""
