"""Two example plugins: `sample_plugin` logs its args, `name_score` scores nodes."""
