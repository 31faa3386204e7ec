"""Put wrappers on functions of frameworks and take them off. Knows no pipeline. Private."""
