"""Django settings by concern; each module turns the typed environment into one group of values."""
