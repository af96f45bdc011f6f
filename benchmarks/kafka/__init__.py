"""Figures from real brokers: ``run`` is ``make bench-kafka``.

``scene`` starts the cluster and takes the measurements, ``metadata`` reads the leaders from brokers, ``contenders`` has
topiarist and its alternatives (``bare`` is one of them). ``side_by_side``, ``load`` and ``initialization`` each measure
one property. All of these are in ZooKeeper mode. ``kraft`` measures clusters in KRaft mode, with its own contenders.
"""
