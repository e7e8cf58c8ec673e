"""The built-in formats: every module here registers one when it is imported."""
