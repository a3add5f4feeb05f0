"""Photos and panoramas as frozen pools of backgrounds, and how a frame sees them."""
