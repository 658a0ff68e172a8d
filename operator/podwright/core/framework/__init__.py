"""The scheduling framework: what a plugin is (`interface`), how profiles enable plugins (`profile`), how they run (`runtime`)."""
