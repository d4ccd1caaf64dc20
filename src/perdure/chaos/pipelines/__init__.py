"""What the workers of a trial run: an agent pipeline in two builds, `v1` and `v2`, and the steps they share."""
