"""The plugins that compare requested with allocatable resources. Start with `node_resources_fit`.

* `node_resources_fit` filters and scores; `strategies` has the arithmetic of its scoring strategies.
* `node_resources_balanced_allocation` scores.
* Both share `args`, `demand` (what a pod adds), `rows` (amounts of all nodes as arrays), `score_formula` (a score for
  one node or many) and `row_cache` (results kept between pods).
"""
