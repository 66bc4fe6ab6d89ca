"""Replicas on a Ray cluster, and the bridge to them."""
