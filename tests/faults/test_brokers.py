"""F14 and F34: brokers come, go, change their rack or are drained: no replica goes to one that the plan did not see."""


def test_f14_a_broker_that_goes_before_the_write_is_named(cluster: Playground, proxy: Proxy) -> None:
    """Registered when the run began, gone at the transaction: nothing is placed on it, and the message says which
    (F14).
    """
    with witnessed(cluster.connect), opened(proxy.through(cluster.connect)) as port:
        plan = planned(port, wish("orders", partitions=6))
        proxy.hold(FIRST, lambda: cluster.remove_broker(4))
        found = outcomes(port, plan)["orders"]
        assert proxy.fired.is_set()
    assert (found.result, found.message) == (Result.MOVED, "broker 4 was registered, and is not now")


def test_f14_a_broker_that_changed_its_rack_is_named(cluster: Playground, client: KazooClient) -> None:
    """Placements were made for the racks seen: with another one the plan is no longer true."""
    with witnessed(cluster.connect), opened(cluster.connect) as port:
        plan = planned(port, wish("orders", partitions=6))
        node = json.loads(client.get("/brokers/ids/4")[0])
        client.set("/brokers/ids/4", json.dumps(node | {"rack": "c"}).encode())
        found = outcomes(port, plan)["orders"]
    assert (found.result, found.message) == (Result.MOVED, "broker 4 was in rack a, and is in c now")
