"""The scheduling framework. Start with `interface`, the contract between plugins and the scheduler.

* what a plugin is: `interface`, `status`, `cluster_events` (queueing hints), `helpers`, `shape`
* how a profile enables plugins: `profile`, `registry`, `features` (gates), `args` and `validation` (decoding of `pluginConfig`)
* how they run: `framework`, `contract` (checks of what they return), `diagnosis` (why nodes were rejected), `errors`
"""
