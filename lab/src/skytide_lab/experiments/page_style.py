"""The style of the page of all experiments: wide and narrow, dark and light, on a screen and on paper."""

STYLE = """
:root { color-scheme: light dark; --ink: #1d2126; --soft: #5b6470; --line: #d9dee4; --paper: #fff; --tint: #f5f7f9;
  --holds: #17692c; --part: #8a5a00; --not: #a3271b; --open: #1f5fa8 }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --soft: #9aa4b0; --line: #343b44; --paper: #14171b; --tint: #1c2127;
  --holds: #6fd08a; --part: #f0b849; --not: #ff8f82; --open: #86b8f2 } }
* { box-sizing: border-box }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif }
main { max-width: 84rem; margin: 0 auto; padding: 1.5rem 1rem 4rem }
h1 { line-height: 1.2 } h2 { margin: 3.5rem 0 .2rem; padding-top: 1rem; border-top: 1px solid var(--line); line-height: 1.3 }
a { color: var(--open) }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; vertical-align: top; padding: .4rem .6rem; border-bottom: 1px solid var(--line); overflow-wrap: break-word }
th { color: var(--soft); font-weight: 600; font-size: .85rem }
tbody tr:hover { background: var(--tint) }
.wide { overflow-x: auto }
.summary td:nth-child(2) { min-width: 13rem } .summary td:nth-child(4) { color: var(--soft); font-size: .9rem; min-width: 16rem }
.number { white-space: nowrap; text-align: right }
.source, .why, .notes { color: var(--soft); font-size: .9rem }
.source { margin: 0 } .question { font-size: 1.1rem; max-width: 60rem } .notes { max-width: 60rem }
.badge { white-space: nowrap; font-size: .85rem; font-weight: 600; vertical-align: middle }
.holds { color: var(--holds) } .part { color: var(--part) } .not { color: var(--not) } .open { color: var(--open) }
.beside { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 1.5rem; align-items: start }
figure { margin: 0; background: #fff; border: 1px solid var(--line); border-radius: .5rem; padding: .5rem; position: sticky; top: .5rem }
img { display: block; width: 100%; height: auto }
.data { font-size: .8rem; font-variant-numeric: tabular-nums } .data td { white-space: nowrap; padding: .15rem .6rem }
details { margin-top: .5rem } summary { cursor: pointer; color: var(--soft) }
@media (max-width: 60rem) { .beside { grid-template-columns: minmax(0, 1fr) } figure { position: static }
  .summary td:nth-child(5), .summary th:nth-child(5) { display: none } }
@media (max-width: 45rem) { .stacks thead { display: none } .stacks, .stacks tbody, .stacks tr, .stacks td { display: block; min-width: 0 !important }
  .stacks td { border: 0; padding: .1rem 0 } .stacks tr { border-bottom: 1px solid var(--line); padding: .6rem 0 }
  .claims td:nth-child(1) { font-weight: 600 } .summary td:nth-child(5) { display: none } }
@media print { :root { --ink: #000; --soft: #444; --paper: #fff } .beside { grid-template-columns: 1fr } figure { position: static }
  section { break-inside: auto } figure, tr { break-inside: avoid } details { display: none } a { color: inherit; text-decoration: none } }
"""
