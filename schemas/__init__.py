"""What travels: Kafka records, topics, job spec, states, errors. Pure data; imports nothing of ours."""
