"""The plants that controllers steer in virtual time, behind the ports of the control cycle: `observe(now)` plays up to now."""
