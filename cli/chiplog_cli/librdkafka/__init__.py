"""The ports to the brokers by confluent-kafka, which is librdkafka."""
