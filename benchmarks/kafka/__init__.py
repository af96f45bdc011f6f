"""Figures from real brokers: ``run`` is ``make bench-kafka``.

``scene`` is the cluster and what is measured on it, ``metadata`` asks brokers who leads, ``contenders`` are topiarist
and its rivals (``bare`` is one of them). ``side_by_side``, ``load`` and ``taking_over`` each measure one thing.
"""
