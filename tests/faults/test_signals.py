"""F30: SIGINT and SIGTERM at every write, and a second one."""


def test_f30_what_is_under_way_is_finished(cluster: Playground) -> None:
    """After the first outcome nothing more is sent; the lock is free and the next run does the rest (F30)."""
    specs = [*WISHES, *(wish(f"more-{number:03}") for number in range(300))]
    mixed(cluster)
    seen: list[Outcome] = []
    with witnessed(cluster.connect, *(spec.topic for spec in specs)), opened(cluster.connect) as port:
        plan = planned(port, *specs)
        for outcome in port.apply(plan, lambda: bool(seen)):
            seen.append(outcome)
        assert len(seen) == len(specs)
        by_result = {result: [o for o in seen if o.result is result] for result in Result}
        assert by_result[Result.DONE]
        assert by_result[Result.NOT_SENT]
        assert locks(cluster) == []
        assert set(results(port, planned(port, *specs)).values()) == {Result.DONE}
        assert not planned(port, *specs).pending


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_f30_in_the_middle_of_many_topics(
    cluster: Playground, proxy: Proxy, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """Ctrl-C in the middle of apply: what was sent is finished and counted, the lock is free, a re-run converges."""
    for index in range(600):
        text = ORDERS.format(retention=86_400_000).replace("name: orders", f"name: orders-{index:03}")
        (tmp_path / f"{index:03}.yaml").write_text(text)
    command = words(cluster, tmp_path, "--yes")
    command[command.index(cluster.connect)] = proxy.through(cluster.connect)
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    proxy.hold(100, lambda: child.send_signal(number))
    out, err = child.communicate(timeout=60)
    assert child.returncode == code
    assert "what is under way is finished" in err
    done = re.search(r"Applied: (\d+) done, (\d+) not sent", out)
    assert done is not None
    assert int(done[1]) + int(done[2]) == 600
    tree = checker.look(cluster.connect)
    assert len(checker.topics(tree)) == int(done[1])
    assert not [path for path in tree if path.startswith("/topiarist/lock/")]
    again = subprocess.run(words(cluster, tmp_path, "--yes"), capture_output=True, text=True, check=False)
    assert again.returncode == 0
    assert len(checker.topics(checker.look(cluster.connect))) == 600
