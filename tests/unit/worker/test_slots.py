"""Slots: whatever comes in whatever order, no more are taken than there are, and none is lost."""

from hypothesis import given
from hypothesis import strategies as st

from perdure.core.tasks import Task
from perdure.worker.slots import Slots

TASK = Task(namespace="default", workflow_id="w", run_id="r", queue="q", command=2, attempt=1)


@given(st.integers(1, 4), st.lists(st.tuples(st.sampled_from(["deliver", "reserve", "free"]), st.integers(1, 4)), max_size=60))
def test_taken_never_passes_the_limit_and_the_count_is_exact(limit, deeds):
    """Over a wire: credits taken back come late, so a broker may still hand over as many as were ever out."""
    out, claimed = limit, []
    grants: list[int] = []
    slots = Slots(limit, grants.append, claimed.append)
    delivered = reserved = freed = 0
    for deed, count in deeds:
        if deed == "deliver" and out > 0:
            out -= 1
            delivered += 1
            slots.delivered(TASK)
        elif deed == "reserve":
            reserved += slots.reserve(count)
        elif deed == "free":
            room = min(count, slots.taken)
            freed += room
            slots.free(room)
        if count % 2:  # the broker hears of it now and then
            out += sum(grants)
            grants.clear()
        assert 0 <= slots.taken <= limit
        assert slots.taken == len(claimed) + reserved - freed
    parked = delivered - len(claimed)
    assert out + sum(grants) + slots.taken + parked == limit
    assert not parked or slots.taken == limit  # nothing waits while there is room
