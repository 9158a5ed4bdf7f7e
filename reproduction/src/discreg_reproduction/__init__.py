"""The tables and figures of the papers behind discreg."""
