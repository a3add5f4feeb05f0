"""Downloads of public assets and panoramas: verified, resumed, with their licences."""
