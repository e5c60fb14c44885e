"""The plants that controllers steer in virtual time, behind the port of the control cycle: `observe(now)` plays up to now."""
