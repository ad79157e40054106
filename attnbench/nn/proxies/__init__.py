"""Zero-cost proxies: scores of an untrained network, each as its paper defines it."""
