"""The scheduling framework. Start with `interface`, the contract between plugins and the scheduler.

* what a plugin is: `interface`, `methods` (its methods by how they are called), `status`, `cluster_events` (queueing
  hints), `helpers`, `shape`
* how a profile enables plugins: `profile`, `registry`, `features` (gates), `args` and `validation` (decoding of
  `pluginConfig`)
* how they run: `framework`, `contract` (checks of what they return), `guarded` (which plugin is running, and for how
  long), `diagnosis` (why nodes were rejected), `errors`
"""
