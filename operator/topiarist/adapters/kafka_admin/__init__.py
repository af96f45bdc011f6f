"""The ports of ``topiarist.ports`` through Kafka's own protocol: KRaft mode, and ZooKeeper mode from 2.8 on."""
