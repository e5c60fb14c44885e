"""A campaign against the engine: random jobs that are killed at random points, judged by an oracle that shares no code with them.

`make campaign`, or `python -m campaign --kills 1000 --seed 7` with `tests` on the path; `--case 12 --seed 7` repeats a case alone.
"""
