"""Two scheduler plugins to start from: `sample_plugin` logs and takes args, `name_score` scores."""
