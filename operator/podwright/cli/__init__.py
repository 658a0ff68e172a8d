"""The command line. Start with `main`, which loads the module of a subcommand from `commands`.

`flags` has flags that several commands share, `reports` their texts, `processes` what runs until a signal, and `demo`
the demo.
"""
