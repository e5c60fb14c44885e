"""What skytide costs, against what people use today: `python -m benchmarks`, or with the names of some parts."""
