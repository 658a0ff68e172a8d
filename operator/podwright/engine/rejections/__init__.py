"""What follows a failed attempt: `failures` writes condition and event, `preemption` evicts victims, `follow_ups` sends
other requests.
"""
