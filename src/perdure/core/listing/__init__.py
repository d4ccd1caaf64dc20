"""The list query: `status = 'running' and attr.customer = 'c1'`. From text to a condition, and what that means for one run.

`grammar` reads the text, `condition` is what it says and decides it for a row, `columns` names what can be asked about. Pure; a store
with a language of its own translates the condition instead of deciding row by row, and must come to the same answer.
"""
