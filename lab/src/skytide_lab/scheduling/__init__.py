"""Pure decisions on which window slot does which task, as the papers have them (P0, P3)."""
