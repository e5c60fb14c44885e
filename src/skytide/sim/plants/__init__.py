"""What controllers steer in virtual time, each behind the ports of the control cycle: `observe(now)` plays up to now."""
