"""Attempts to schedule single pods: `in_slices` runs them, `extended` calls extenders, `turns` orders them after a slow one."""
