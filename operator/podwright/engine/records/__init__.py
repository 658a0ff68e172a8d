"""What only records: metrics, decisions, log fields, and what each policy and queue has used."""
