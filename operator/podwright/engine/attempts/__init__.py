"""Attempts at single pods: `extended` calls extenders, `outcomes` carries decisions out, `turns` orders pods after a
slow attempt.
"""
