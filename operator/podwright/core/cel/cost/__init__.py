"""The cost of expressions: `estimate` bounds it before an evaluation, `counted` counts it during one."""
