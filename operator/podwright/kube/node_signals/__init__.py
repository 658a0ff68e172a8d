"""Asks the sources of signals for numbers of nodes, while decisions go on. Times and sizes are bounded. Start with
`feeds`.
"""
