"""The pure core: objects, state, framework, queue, preemption, plugins, cycle.

Nothing in here does I/O, reads a clock or draws random numbers: clock and random source are passed in, and what the
core wants done comes out as frozen `Decision` values. Start reading at `podwright.core.cycle`.
"""
