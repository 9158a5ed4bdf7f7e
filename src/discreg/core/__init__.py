"""What every family of models needs, and nothing that one family owns."""
