"""What a size would bring, what a plan costs, and the best way through the steps to come."""
