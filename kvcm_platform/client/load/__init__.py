"""Load on the platform as real engines make it: replay of traces, and an endless demonstration."""
