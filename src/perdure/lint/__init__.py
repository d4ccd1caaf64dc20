"""Finds nondeterminism by reading the code: what would not replay, and what a guard would refuse once it runs.

It parses text and imports none of it. It looks at workflow code only: `@workflow` functions and classes, and the plain functions they
use, in the same file or another one of the same project. Activities may do as they like.
"""
