"""DynamicResources, and what it needs: start with `dynamic_resources`."""
