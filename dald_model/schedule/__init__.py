"""The order of the clients and its changes; no data, only graphs and names."""
