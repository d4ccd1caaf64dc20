"""What stands in a journal and where, in a SQLite file beside it: rows for listing, attributes, places of lines, parked workflow ids.

The journal is the truth. The index is written behind it, may be deleted at any time and is made anew from the journal; nothing is ever
read from it that the journal does not hold. Holds no histories.
"""
