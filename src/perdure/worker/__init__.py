"""Running tasks: workflow code on warm runners, activities on the loop and on threads. Stateless: all it holds can be had again.

It reaches the engine only through `ports.Frontend`, so it cannot tell this process from another one; it never imports `engine`.
"""
