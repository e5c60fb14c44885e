"""The live view of a running query: what arrives, what is decided, what comes out."""
