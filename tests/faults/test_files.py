"""F4, F27 and F28: killed while a file is written, no room for it, and manifests that change while they are read."""


def test_f27_without_a_report_nothing_is_sent(cluster: Playground, proxy: Proxy, tmp_path: Path) -> None:
    """A disk that is full from the beginning: the path is named, no write is sent, the code is 1 (F27)."""
    folder = manifests(tmp_path, {"prod": proxy.through(cluster.connect)}, "orders")
    running = apply(folder, Path("/dev/full"))
    _, err = running.communicate(timeout=60)
    assert running.returncode == 1
    assert "error: /dev/full: cannot be written: No space left on device" in err
    assert proxy.writes == 0


def test_f27_a_disk_that_becomes_full_ends_the_sending(
    cluster: Playground, client: KazooClient, proxy: Proxy, tmp_path: Path
) -> None:
    """What was under way is finished, nothing more is sent, the lines are whole; the next run does the rest (F27)."""
    names, report = [f"orders-{number:03}" for number in range(400)], tmp_path / "report.jsonl"
    folder = manifests(tmp_path, {"prod": proxy.through(cluster.connect)}, *names)
    running = apply(folder, report, size=8_000)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 1
    assert f"error: {report}: cannot be written: File too large" in err
    match = re.search(r"Applied: (\d+) done, (\d+) not sent", out)
    assert match
    assert int(match[2]) > 100
    assert len(client.get_children("/topiarist/topics")) == int(match[1])
    told = results(report)
    assert set(told.values()) == {"done"}
    assert 0 < len(told) <= int(match[1])
    cluster.settle()
    again = apply(folder, tmp_path / "again.jsonl")
    again.communicate(timeout=60)
    assert (again.returncode, len(results(tmp_path / "again.jsonl"))) == (0, int(match[2]))
