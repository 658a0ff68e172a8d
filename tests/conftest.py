"""What all tests share: the fixtures of the real control plane."""

pytest_plugins = ["control_plane_fixtures"]
