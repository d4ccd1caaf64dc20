"""The filter of workflow ids: never a wrong no, seldom a wrong yes, little memory."""

from perdure.store.index.presence import Presence


def test_every_id_that_was_added_is_there() -> None:
    """Past any size, whatever the ids; and few that were not are said to be."""
    presence = Presence()
    odd = ["", "\ud800", "a\0b", "🦊"]
    ids = [*odd, *(f"order-{n}" for n in range(60_000))]
    for id in ids:
        presence.add("default", id)
    assert all(("default", id) in presence for id in ids)
    wrong = sum(("default", f"other-{n}") in presence for n in range(20_000))
    assert wrong < 20_000 * 0.02


def test_a_million_ids_take_a_few_megabytes() -> None:
    """With room made at once, as at a start."""
    assert Presence(1_000_000).bytes <= 5 << 20
