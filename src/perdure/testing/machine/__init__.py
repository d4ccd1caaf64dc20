"""The pure machine under a magnifying glass: one owner without a store, laws checked after every step, toy workflows and their lives."""
