"""Downloads of assets and panoramas from their public servers."""
