"""Real Kafka for tests: jars by Maven, ZooKeeper and brokers as loopback processes, and Kafka's own clients.

``jars`` fetches releases; ``processes`` starts guarded processes that end with the test process.
``zookeeper.ZooKeeper`` and ``cluster.Cluster`` are a cluster: start, stop, kill, pause, resume and restart a broker,
add a broker, give a broker other settings, find the controller, run one of Kafka's tools. ``clients.Clients`` and
``clients.ConfigParser`` are Java programs of this project that call Kafka's Admin client, producer, consumer and config
parser; ``bed.Bed`` combines a cluster with its clients and topiarist.
"""
