"""Real Kafka for tests: jars by Maven, ZooKeeper and brokers as processes on the loopback, Kafka's own clients.

``jars`` fetches releases; ``processes`` starts what ends with us; ``zookeeper.ZooKeeper`` and ``cluster.Cluster`` are a
cluster (start, stop, kill, pause, resume and restart a broker, add one, give one other settings, name the controller,
run one of Kafka's tools); ``clients.Clients`` and ``clients.ConfigParser`` are Java programs of ours that ask Kafka's
Admin client, producer, consumer and parser of configs; ``bed.Bed`` ties a cluster to its clients and to topiarist.
"""
