"""Reservations: from the objects of the API server to the room that the core holds, and their status back."""
