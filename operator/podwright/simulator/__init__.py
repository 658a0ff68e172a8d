"""The core without a cluster: `cases` reads clusters from files, `evaluation` says what the scheduler makes of a pod."""
