"""The embedded broker: a real Apache Kafka of one node, for development and single machines."""
