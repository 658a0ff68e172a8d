"""Third-party plugins in a process: how they are loaded and watched, and how calls that do not return are stopped and
remembered.

third_party (in a process that decides)
    ─► alarm (stops calls), hangs (remembers plugins that hung); guarded (in commands and tests) ─► alarm
"""
