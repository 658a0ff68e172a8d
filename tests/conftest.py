"""What all tests share: the fixtures of the real control plane."""

pytest_plugins = ["support.control_plane.fixtures"]
