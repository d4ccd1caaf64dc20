"""The demo's workload: decided by its seed, with every kind of order in it."""

from perdure.demo.buyers import purchases


def test_the_seed_decides_and_more_orders_change_none_before() -> None:
    """Same seed, same purchases; a longer demo begins like a shorter one."""
    assert purchases(3, 50) == purchases(3, 50)[:50] == purchases(3, 80)[:50]
    assert purchases(3, 50) != purchases(4, 50)


def test_ids_are_unique() -> None:
    """Two purchases are never one order."""
    assert len({purchase.order.id for purchase in purchases(1, 500)}) == 500


def test_the_first_order_is_in_flight_until_the_last_engine() -> None:
    """Whatever the seed, a kill always finds work to interrupt."""
    assert all(purchases(seed, 1)[0].is_parked for seed in range(50))


def test_every_kind_occurs() -> None:
    """Large and small; approved, declined, answered twice, answered late: about as often as it says."""
    bought = purchases(7, 4000)
    large = [purchase for purchase in bought if purchase.order.is_large]
    assert 0.12 < len(large) / len(bought) < 0.18
    assert 0.05 < sum(not purchase.approves for purchase in large) / len(large) < 0.15
    assert 0.10 < sum(purchase.answers_twice for purchase in large) / len(large) < 0.20
    assert 0.14 < sum(purchase.answers_late for purchase in large) / len(large) < 0.26
    assert min(purchase.order.cents for purchase in bought) >= 500
